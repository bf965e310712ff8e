package a2a

import (
	"errors"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// What is known before the body is read.
func TestOpen(t *testing.T) {
	type known struct {
		Binding Binding
		Version Version
		Method  Method
		Tenant  string
		TaskID  string
		Reason  Reason
	}
	tests := []struct {
		verb, path, version string
		strict              bool
		want                known
	}{
		{"POST", "", "1.0", false, known{JSONRPC, V10, "", "", "", ""}},
		{"POST", "/", "1.0.3", false, known{JSONRPC, V10, "", "", "", ""}},
		{"POST", "/", "", false, known{JSONRPC, "", "", "", "", ""}},
		{"POST", "/", "9.9", false, known{JSONRPC, "9.9", "", "", "", ""}}, // refused once the id is known
		{"GET", "/", "1.0", false, known{JSONRPC, V10, "", "", "", ReasonMethodNotAllowed}},
		{"POST", "/message:stream", "", false, known{HTTPJSON, V10, SendStreamingMessage, "", "", ""}},
		{"POST", "/message:stream", "", true, known{HTTPJSON, V03, SendStreamingMessage, "", "", ReasonVersionNotSupported}},
		{"POST", "/v1/message:send", "", false, known{HTTPJSON, V03, SendMessage, "", "", ""}},
		{"POST", "/v1/message:send", "0.3.0", true, known{HTTPJSON, V03, SendMessage, "", "", ""}},
		{"POST", "/message:send", "0.3", false, known{HTTPJSON, V03, "", "", "", ReasonMethodNotFound}},
		{"POST", "/v1/message:send", "1.0", true, known{HTTPJSON, V10, SendMessage, "v1", "", ""}},
		{"POST", "/a%2Fb/tasks/t%2F1:cancel", "1.0", false, known{HTTPJSON, V10, CancelTask, "a/b", "t/1", ""}},
		{"GET", "/tasks/tasks", "1.0", false, known{HTTPJSON, V10, GetTask, "", "tasks", ""}},
		{"GET", "/acme/tasks/t/pushNotificationConfigs/c", "1.0", false, known{HTTPJSON, V10, GetPushConfig, "acme", "t", ""}},
		{"GET", "/tasks/%zz", "1.0", false, known{HTTPJSON, V10, "", "", "", ReasonMethodNotFound}},
		{"GET", "/tasks/", "1.0", false, known{HTTPJSON, V10, "", "", "", ReasonMethodNotFound}},
		{"GET", "//tasks/t", "1.0", false, known{HTTPJSON, V10, "", "", "", ReasonMethodNotFound}},
		{"GET", "/a/b/tasks", "1.0", false, known{HTTPJSON, V10, "", "", "", ReasonMethodNotFound}},
	}
	for _, tt := range tests {
		r := httptest.NewRequest(tt.verb, "/", nil)
		if tt.version != "" {
			r.Header.Set(HeaderVersion, tt.version)
		}
		q, err := Open(r, tt.path, ServerOptions{StrictVersion: tt.strict})
		got := known{q.Binding, q.Version, q.Method, q.Tenant, q.Facts.TaskID, ""}
		if err != nil {
			got.Reason = err.Reason
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("Open(%s %q, version %q) (-want +got)\n%s", tt.verb, tt.path, tt.version, diff)
		}
	}
}

func TestOpenExtensions(t *testing.T) {
	r := httptest.NewRequest("POST", "/", nil)
	r.Header.Add(HeaderExtensions, "https://e/1 , https://e/2,")
	r.Header.Add(HeaderExtensions, "https://e/1,https://e/3")
	q, _ := Open(r, "", ServerOptions{})
	if want := []string{"https://e/1", "https://e/2", "https://e/3"}; !slices.Equal(q.Extensions, want) {
		t.Errorf("extensions %q, want %q", q.Extensions, want)
	}
}

func TestReadBodyCutOff(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{os.ErrDeadlineExceeded, "the request body did not arrive within 30s"},
		{iotest.ErrTimeout, "the request body could not be read to its end"},
	} {
		r := httptest.NewRequest("POST", "/", iotest.ErrReader(tt.err))
		q, _ := Open(r, "", ServerOptions{})
		if err := q.ReadBody(r.Body); err == nil || err.Message != tt.want {
			t.Errorf("%v: %v, want %s", tt.err, err, tt.want)
		}
	}
}

// A body may announce more than it has, or be sent in small pieces.
func TestReadLimited(t *testing.T) {
	for _, announced := range []int64{-1, 0, 3, 5, 1 << 40} {
		got, err := readLimited(iotest.OneByteReader(strings.NewReader("hello")), announced, 1<<41)
		if string(got) != "hello" || err != nil {
			t.Errorf("announced %d: %q, %v", announced, got, err)
		}
	}
	for _, limit := range []int64{4, 5} {
		_, err := readLimited(strings.NewReader("hello"), -1, limit)
		if errors.Is(err, errTooLarge) != (limit == 4) {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}
