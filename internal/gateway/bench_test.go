package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// BenchmarkCall makes whole governed calls as 64 callers do, over loopback and
// with the real store, and reports the processor time of one: caller, mesh and
// agent together, since they share the process.
func BenchmarkCall(b *testing.B) {
	m := parleytest.Start(b, parleytest.Options{Configure: func(c *config.Config) { c.Log.Level = config.LogWarn }})
	agent := m.Agent("echo")
	text := strings.Repeat("x", 600)
	agent.Serve(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			b.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"`+uuid.NewString()+`","contextId":"`+uuid.NewString()+`","role":"ROLE_AGENT","parts":[{"text":"`+text+`"}]}}}`)
	})
	key := m.Key("load", "")
	const callers = 64
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	defer client.CloseIdleConnections()
	call := func() {
		body := `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"` + uuid.NewString() + `","role":"ROLE_USER","parts":[{"text":"` + text + `"}]}}}`
		req, err := http.NewRequest(http.MethodPost, m.URL("echo"), strings.NewReader(body))
		if err != nil {
			b.Error(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("A2A-Version", "1.0")
		resp, err := client.Do(req)
		if err != nil {
			b.Error(err)
			return
		}
		defer resp.Body.Close()
		if answer, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(answer), `"result"`) {
			b.Errorf("answered %s, %v", answer, err)
		}
	}
	call()
	var left atomic.Int64
	left.Store(int64(b.N))
	before := processorTime(b)
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				call()
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric((processorTime(b)-before)/float64(b.N), "cpu-µs/op")
}

// processorTime is what the process has used, in microseconds.
func processorTime(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1000
}
