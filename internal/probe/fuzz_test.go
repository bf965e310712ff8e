package probe

import (
	"net/http"
	"strings"
	"testing"
	"unicode"

	"github.com/parley-mesh/parley/internal/netguard"
	"github.com/parley-mesh/parley/internal/registry"
)

// Whatever is given as an address, only its own host is asked, and plain http
// only as the last resort of a bare host.
func FuzzPlaces(f *testing.F) {
	for _, s := range []string{"example.com", "example.com:8080/x", "https://example.com/a%2Fb/?q=1", "http://h/.well-known/agent.json", "https://h//..//x", "h?x", "[::1]:1", "https://h/%2e%2e/"} {
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, address string, exact bool) {
		list, err := places(address, exact)
		if err != nil {
			if len(list) != 0 {
				t.Errorf("places of a bad address: %v", list)
			}
			return
		}
		for _, p := range list {
			if p.url.Host != list[0].url.Host {
				t.Errorf("%q leads to the host %q", address, p.url.Host)
			}
			if !strings.Contains(address, "://") && p.url.Scheme == "http" != p.lastResort {
				t.Errorf("%q: plain http at %v, last resort %v", address, p.url, p.lastResort)
			}
			if _, err := netguard.ParseURL(p.url.String()); err != nil {
				t.Errorf("%q leads to %q: %v", address, p.url, err)
			}
		}
		if len(list) > 10 || exact && strings.Contains(address, "://") && len(list) != 1 {
			t.Errorf("%q: %d places", address, len(list))
		}
	})
}

// Whatever an agent answers, the result is short and printable, and proves the
// agent only in one binding.
func FuzzJudge(f *testing.F) {
	f.Add(200, "application/json", []byte(`{"jsonrpc":"2.0","id":"x","error":{"code":-32001,"message":"m"}}`))
	f.Add(404, "application/a2a+json", []byte(`{"error":{"code":404,"status":"NOT_FOUND","message":"no","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org"}]}}`))
	f.Add(404, "text/html", []byte("<html>"))
	f.Add(404, "application/json", []byte(`{"message":"Task not found"}`))
	f.Add(404, "application/json", []byte(`{"code":-32001,"message":"no"}`))
	f.Add(400, "application/problem+json", []byte(`{"type":"x/task-not-found"}`))
	f.Fuzz(func(t *testing.T, status int, kind string, body []byte) {
		got := answer{status: status, header: http.Header{"Content-Type": {kind}}, body: body}
		rpc, rest, old := judgeRPC(got, "x", "JSON-RPC", "GetTask"), judgeREST(got), judgeREST03(got)
		for _, f := range []finding{rpc, rest, old} {
			if text := f.result + f.odd; f.result == "" || len(text) > 300 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("result %q, odd %q", f.result, f.odd)
			}
			if f.sure && f.result != registry.ProbeOK {
				t.Errorf("sure of %q", f.result)
			}
		}
		if rpc.proven() && (rest.proven() || old.proven()) {
			t.Errorf("both bindings are proven by one answer: %d %q", status, body)
		}
	})
}
