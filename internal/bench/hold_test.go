package bench

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// hold runs HoldStreams on url, calls held once all streams are open, and
// returns its error.
func hold(t *testing.T, url string, held func(release func())) error {
	t.Helper()
	in, release := io.Pipe()
	out, ready := io.Pipe()
	spec, err := json.Marshal(Spec{URLs: []string{url}, Conns: 3})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		err := HoldStreams(t.Context(), io.MultiReader(bytes.NewReader(spec), in), ready)
		ready.Close()
		ended <- err
	}()
	if _, err := out.Read(make([]byte, 100)); err == nil {
		held(func() { release.Close() })
	}
	return <-ended
}

func TestHoldStreams(t *testing.T) {
	err := hold(t, serveAgent(t, HoldsStreams), func(release func()) { release() })
	if err != nil {
		t.Error(err)
	}
}

// A stream that does not idle makes the measurement void.
func TestHoldStreamsRefusesWhatIsNotIdle(t *testing.T) {
	never := func(func()) {}
	if err := hold(t, serveAgent(t, RepliesMessage), never); err == nil || !strings.Contains(err.Error(), errSecondEvent.Error()) {
		t.Errorf("streams with more events: err = %v", err)
	}
	refuses := httptest.NewServer(http.NotFoundHandler())
	defer refuses.Close()
	if err := hold(t, refuses.URL, never); err == nil || !strings.Contains(err.Error(), "status 404") {
		t.Errorf("no stream at all: err = %v", err)
	}
	ends := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			ID json.RawMessage `json:"id"`
		}
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: "+string(appendResult(nil, call.ID))+`{"task":{}}}`+"\n\n")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
	}))
	defer ends.Close()
	if err := hold(t, ends.URL, never); err == nil || !strings.Contains(err.Error(), "a held stream broke") {
		t.Errorf("streams that end: err = %v", err)
	}
}
