package a2a

import (
	"net/http"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

func TestErrorTable(t *testing.T) {
	seen := map[Reason]bool{}
	for i, c := range categories {
		if seen[c.reason] {
			t.Errorf("%s stands twice in the table", c.reason)
		}
		seen[c.reason] = true
		if got := c.reason.InA2A(); got != (i < ours) {
			t.Errorf("%s.InA2A() = %v", c.reason, got)
		}
		if i < ours && c.code != -32001-i {
			t.Errorf("%s has code %d", c.reason, c.code)
		}
	}
}

// An error keeps its meaning through either binding, and through one after the
// other.
func TestErrorRoundTrip(t *testing.T) {
	for _, c := range categories {
		e := NewError(c.reason, "message of %s", c.reason).With("taskId", "t1")
		e.Violations = []FieldViolation{{"message.role", "is required"}}
		e.RetryAfter = 2500 * time.Millisecond
		e.Details = []jsontext.Value{jsontext.Value(`{"@type":"example.com/Other","x":1}`)}
		rpc := DecodeRPC(e.RPC())
		rest := DecodeREST(e.HTTP, nil, e.REST())
		via := DecodeRPC(rest.RPC())
		for name, got := range map[string]*Error{"JSON-RPC": rpc, "REST": rest, "both": via} {
			if diff := cmp.Diff(e, got); diff != "" {
				t.Errorf("%s through %s (-want +got)\n%s", c.reason, name, diff)
			}
		}
	}
}

func TestErrorTextIsValid(t *testing.T) {
	e := NewError(ReasonInternal, "bad \xff byte").With("k", "\xfe")
	e.Violations = []FieldViolation{{"\xff", "\xff"}}
	for _, raw := range []jsontext.Value{e.RPC(), e.REST()} {
		if err := jsonwire.Valid(raw, jsonwire.Limits{}); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
	if e.Message != "bad \xff byte" {
		t.Error("writing changed the error")
	}
}

// The order of trust: ErrorInfo of A2A, then the code, then the status.
func TestDecodeRPC(t *testing.T) {
	info := func(reason, domain string) string {
		return `{"code":-32603,"message":"m","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"` + reason + `","domain":"` + domain + `"}]}`
	}
	tests := []struct {
		name, object string
		reason       Reason
		code, http   int
	}{
		{"ErrorInfo wins over the code", info("TASK_NOT_FOUND", DomainA2A), ReasonTaskNotFound, -32603, 404},
		{"unknown reason of A2A falls through", info("EXECUTION_IN_PROGRESS", DomainA2A), "EXECUTION_IN_PROGRESS", -32603, 500},
		{"foreign domain is not A2A's", info("TASK_NOT_FOUND", "example.com"), ReasonInternal, -32603, 500},
		{"our domain has none of the nine", info("TASK_NOT_FOUND", DomainParley), ReasonInternal, -32603, 500},
		{"our words in A2A's domain", info("INVALID_PARAMS", DomainA2A), ReasonInvalidParams, -32603, 400},
		{"code alone", `{"code":-32002,"message":"m"}`, ReasonTaskNotCancelable, -32002, 400},
		{"code with free data", `{"code":-32001,"message":"m","data":{"taskId":"x"}}`, ReasonTaskNotFound, -32001, 404},
		{"unknown code", `{"code":-32050,"message":"m"}`, ReasonInternal, -32050, 500},
		{"SDK's 401", `{"code":-31401,"message":"m"}`, ReasonUnauthenticated, -31401, 401},
		{"control characters are no reason", info(`A\u0000B`, DomainA2A), ReasonInternal, -32603, 500},
		{"no object", `7`, ReasonInternal, -32603, 500},
	}
	for _, tt := range tests {
		e := DecodeRPC(jsontext.Value(tt.object))
		if e.Reason != tt.reason || e.RPCCode != tt.code || e.HTTP != tt.http {
			t.Errorf("%s: %s %d %d, want %s %d %d", tt.name, e.Reason, e.RPCCode, e.HTTP, tt.reason, tt.code, tt.http)
		}
	}
}

func TestDecodeREST(t *testing.T) {
	tests := []struct {
		name   string
		status int
		body   string
		reason Reason
		code   int
		bare   bool
	}{
		{"status object", 400, `{"error":{"code":400,"status":"FAILED_PRECONDITION","message":"m","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_CANCELABLE","domain":"a2a-protocol.org"}]}}`, ReasonTaskNotCancelable, -32002, false},
		{"older status, same reason", 409, `{"error":{"code":409,"status":"ABORTED","message":"m","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_CANCELABLE","domain":"a2a-protocol.org"}]}}`, ReasonTaskNotCancelable, -32002, false},
		{"older status alone", 409, `{"error":{"message":"m"}}`, ReasonTaskNotCancelable, -32002, false},
		{"status 415 alone", 415, `{"error":{"message":"m"}}`, ReasonContentTypeNotSupported, -32005, false},
		{"404 without details", 404, `{"error":{"code":404,"status":"NOT_FOUND","message":"m"}}`, ReasonTaskNotFound, -32001, false},
		{"problem+json", 404, `{"type":"https://a2a-protocol.org/errors/task-not-found","title":"Task not found","status":404,"detail":"no t1"}`, ReasonTaskNotFound, -32001, false},
		{"JSON-RPC body", 403, `{"jsonrpc":"2.0","id":null,"error":{"code":-31403,"message":"m"}}`, ReasonForbidden, -31403, false},
		{"bare 404", 404, `404 page not found`, ReasonMethodNotFound, -32601, true},
		{"bare 429", 429, ``, ReasonRateLimited, -31429, true},
		{"bare 418", 418, `{}`, ReasonInvalidParams, -32602, true},
		{"bare 500", 500, `{"message":"x"}`, ReasonInternal, -32603, true},
	}
	for _, tt := range tests {
		e := DecodeREST(tt.status, http.Header{"Retry-After": {"7"}, "Www-Authenticate": {"Bearer"}}, []byte(tt.body))
		if e.Reason != tt.reason || e.RPCCode != tt.code || e.HTTP != tt.status || e.Bare != tt.bare {
			t.Errorf("%s: %s %d %d bare=%v, want %s %d %d bare=%v", tt.name, e.Reason, e.RPCCode, e.HTTP, e.Bare, tt.reason, tt.code, tt.status, tt.bare)
		}
		if e.RetryAfter != 7*time.Second || e.Challenge != "Bearer" || e.Message == "" || e.Status == "" {
			t.Errorf("%s: incomplete: %+v", tt.name, e)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "-3": 0, "12": 12 * time.Second, "soon": 0,
		"Fri, 02 Jan 2026 03:04:15 GMT": 10 * time.Second, "Fri, 02 Jan 2026 03:04:00 GMT": 0,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("retryAfter(%q) = %v, want %v", text, got, want)
		}
	}
}

func FuzzDecodeError(f *testing.F) {
	f.Add(404, []byte(`{"error":{"code":404,"status":"NOT_FOUND","message":"m","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org","metadata":{"a":"b"}}]}}`))
	f.Add(200, []byte(`{"code":-32602,"message":"m","data":[{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"a","description":"b"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"1s"}]}`))
	f.Add(409, []byte(`{"type":"https://x/y#task-not-found","title":"t"}`))
	f.Add(502, []byte(`<html>`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		for _, e := range []*Error{DecodeRPC(body), DecodeREST(status, nil, body)} {
			if e.Reason == "" || e.Message == "" || e.RPCCode == 0 || e.Status == "" {
				t.Fatalf("incomplete: %+v", e)
			}
			rpc, rest := e.RPC(), e.REST()
			if jsonwire.Valid(rpc, jsonwire.Limits{}) != nil || jsonwire.Valid(rest, jsonwire.Limits{}) != nil {
				t.Fatalf("not JSON: %s, %s", rpc, rest)
			}
			if again := DecodeRPC(rpc); again.Reason != e.Reason || again.RPCCode != e.RPCCode {
				t.Fatalf("%s read again is %s %d, was %s %d", rpc, again.Reason, again.RPCCode, e.Reason, e.RPCCode)
			}
		}
	})
}
