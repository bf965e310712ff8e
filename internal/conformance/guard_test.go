package conformance

import (
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/parley-mesh/parley/internal/a2a"
)

var guardChecks = map[int]check{
	119: func(t *testing.T, w *world) {
		id, _ := w.as(t, w.Alice).held("ref-hold", nil)
		stated := statedRights(t)
		for method, params := range everyOperation(id) {
			cells := stated[method]
			if len(cells) != 4 {
				t.Errorf("docs/authorization.md does not name %s with all four cells", method)
				continue
			}
			for i, credential := range []string{w.Alice, w.Bob, w.Outsider, ""} {
				if i == 0 { // or the task would end
					continue
				}
				if got := right(t, w.as(t, credential), method, params, id); got != cells[i] {
					t.Errorf("%s by caller %d: docs/authorization.md says %q, but it is %q", method, i+1, cells[i], got)
				}
			}
		}
		for _, method := range []string{"GetTask", "ListTasks", "SubscribeToTask", "SendMessage", "SendStreamingMessage", "CancelTask", "GetExtendedAgentCard",
			"CreateTaskPushNotificationConfig", "GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs", "DeleteTaskPushNotificationConfig"} {
			own, _ := w.as(t, w.Alice).held("ref-hold", nil) // each changes it
			if method == opGet {
				w.as(t, w.Alice).must(opCreate, obj{"taskId": own, "id": "p1", "url": "https://hooks.example.com/x"})
			}
			if got := right(t, w.as(t, w.Alice), method, everyOperation(own)[method], own); len(stated[method]) == 4 && got != stated[method][0] {
				t.Errorf("%s on one's own task: docs/authorization.md says %q, but it is %q", method, stated[method][0], got)
			}
		}
	},
	125: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		if a := c.call("SendMessage", say("tck-complete-task", obj{"parts": []any{obj{"text": strings.Repeat("x", 11<<20)}}})); a.fault == nil || a.fault.reason() != "REQUEST_TOO_LARGE" {
			t.Errorf("11 MiB: HTTP %d %.300s", a.status, a.body)
		}
		if c.binding != a2a.GRPC { // which has its own type and its own compression
			c.wantFault(c.with("Content-Type", "text/plain").call("SendMessage", say("tck-complete-task", nil)), "CONTENT_TYPE_NOT_SUPPORTED")
			c.wantStatus(c.with("Content-Encoding", "gzip").call("SendMessage", say("tck-complete-task", nil)), http.StatusUnsupportedMediaType)
		}
		if !w.through() {
			return // TLS and what belongs to it are the listener's
		}
		v := w.another(t, Variant{TLS: true})
		// The certificate is nobody's; what counts here is the header.
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		defer transport.CloseIdleConnections()
		resp, err := (&http.Client{Transport: transport}).Get(v.URL + a2a.CardPath)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		age, _, _ := strings.Cut(strings.TrimPrefix(resp.Header.Get("Strict-Transport-Security"), "max-age="), ";")
		if seconds, err := strconv.Atoi(age); err != nil || seconds < 180*24*3600 {
			t.Errorf("Strict-Transport-Security %q over TLS, want half a year at least", resp.Header.Get("Strict-Transport-Security"))
		}
		plain := w.fetchCard(t, http.MethodGet, nil)
		plain.Body.Close()
		if got := plain.Header.Get("Strict-Transport-Security"); got != "" {
			t.Errorf("Strict-Transport-Security %q without TLS, where it means nothing", got)
		}
	},
	127: func(t *testing.T, w *world) {
		var log func() string
		t.Run("mesh", func(t *testing.T) { // stops at its end, and says what it has counted
			v := w.apart(t, kind{tight: true})
			log = v.Log
			bad, limited := v.as(t, "Bearer pk_wrong"), 0
			for range 2 * tightBurst {
				switch a := bad.call("ListTasks", obj{}); {
				case bad.limited(a):
					limited++
				case a.status != http.StatusUnauthorized:
					t.Errorf("HTTP %d %s", a.status, a.body)
				}
			}
			if limited < tightBurst/2 {
				t.Errorf("%d of %d failed attempts were limited", limited, 2*tightBurst)
			}
			status, err := v.Mesh.control.Status(t.Context())
			if err != nil || status.AuthFailures.Total < 2*tightBurst {
				t.Errorf("%+v are counted, %v; want all of them", status.AuthFailures, err)
			}
		})
		if log != nil && !strings.Contains(log(), "callers could not be identified") {
			t.Errorf("the failures are not summarised in the log:\n%s", log())
		}
	},
	128: func(t *testing.T, w *world) {
		v := w.apart(t, kind{tight: true})
		c := v.as(t, v.Alice)
		id := uuid.NewString()
		for range tightBurst {
			c.call("GetTask", obj{"id": id})
		}
		for method, params := range everyOperation(id) {
			if a := c.faults(method, params); !c.limited(a) {
				t.Errorf("%s: HTTP %d %v %s, want it rate-limited with the time to wait", method, a.status, a.header, a.body)
			}
		}
		v.as(t, v.Bob).must("ListTasks", obj{})
		anonymous, limited := v.as(t, ""), 0
		for range 2 * tightBurst {
			if anonymous.limited(anonymous.call("ListTasks", obj{})) {
				limited++
			}
		}
		if limited < tightBurst/2 {
			t.Errorf("%d of %d requests without a credential were limited", limited, 2*tightBurst)
		}
	},
}

// limited tells whether an answer says that its caller asks too often, and how
// long to wait.
func (c *caller) limited(a answer) bool {
	if a.fault == nil || a.fault.reason() != "RATE_LIMITED" {
		return false
	}
	waits := slices.ContainsFunc(a.fault.details, func(d obj) bool {
		return d["@type"] == "type.googleapis.com/google.rpc.RetryInfo" && text(d, "retryDelay") != ""
	})
	switch c.binding {
	case a2a.GRPC:
		return waits && a.fault.status == "UNAVAILABLE"
	case a2a.HTTPJSON:
		waits = waits && a.fault.status == "UNAVAILABLE"
	}
	return waits && a.status == http.StatusTooManyRequests && a.header.Get("Retry-After") != ""
}

// statedRights are the cells of the table in docs/authorization.md, by operation.
func statedRights(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/authorization.md")
	if err != nil {
		t.Fatal(err)
	}
	stated := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		stated[cells[0]] = cells[1:]
	}
	return stated
}

// right is what becomes of an operation on a task, in the words of
// docs/authorization.md.
func right(t *testing.T, c *caller, method string, params obj, id string) string {
	t.Helper()
	var a answer
	if a2a.Method(method).Streaming() {
		s, refused := c.try(method, params)
		if s != nil {
			event, f, _ := s.next()
			s.close()
			if f == nil && event != nil {
				return "allowed"
			}
			refused.fault = f
		}
		a = refused
	} else {
		a = c.call(method, params)
	}
	switch {
	case a.fault == nil && method == "ListTasks" && !slices.Contains(taskIDs(a.result), id):
		return "its own only"
	case a.fault == nil:
		return "allowed"
	case a.status == http.StatusForbidden:
		return "refused"
	case a.status == http.StatusUnauthorized:
		return "asked for a credential"
	case a.fault.reason() == "TASK_NOT_FOUND":
		return "no such task"
	case a.fault.reason() == "PUSH_NOTIFICATION_NOT_SUPPORTED" || a.fault.reason() == "UNSUPPORTED_OPERATION":
		return "not offered"
	}
	return a.fault.reason() + ": " + a.fault.message
}

// apart is the same agent behind a mesh of its own, which stops when the test
// ends.
func (w *world) apart(t *testing.T, k kind) *world {
	t.Helper()
	return &world{startMesh(t, k).register(t, w.Agent, w.Home), w.side}
}

// goesOn tries that the mesh goes on to the next interface of a card: when it
// reads it, and when it reads it again because the one in use is gone.
func (w *world) goesOn(t *testing.T) {
	t.Helper()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := "http://" + closed.Addr().String() + "/"
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	if address := w.Agent.Address(); address != "" {
		w.goesOnOverGRPC(t, closed.Addr().String())
		return
	}
	var gone atomic.Bool
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == a2a.CardPath {
			card := w.Agent.Card()
			one := card.SupportedInterfaces[0]
			card.SupportedInterfaces = nil
			for _, url := range []string{dead, s.URL + "/first/", s.URL + "/second/"} {
				one.URL = url
				card.SupportedInterfaces = append(card.SupportedInterfaces, one)
			}
			rw.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(rw).Encode(card) // a reader that has left
			return
		}
		if gone.Load() && strings.HasPrefix(r.URL.Path, "/first/") {
			http.NotFound(rw, r)
			return
		}
		for _, prefix := range []string{"/first", "/second"} {
			if strings.HasPrefix(r.URL.Path, prefix+"/") {
				http.StripPrefix(prefix, w.Agent).ServeHTTP(rw, r)
			}
		}
	}))
	defer s.Close()
	v := &world{w.Mesh.register(t, w.Agent, s.URL), w.side}
	c := v.as(t, v.Alice)
	wantState(t, c.task("tck-complete-task", nil), a2a.StateCompleted)
	gone.Store(true)
	if a := c.call("SendMessage", say("tck-complete-task", nil)); a.fault == nil {
		t.Fatalf("the interface that is gone answers %s", a.body)
	}
	if _, err := w.Mesh.control.RefreshAgent(t.Context(), v.Name); err != nil {
		t.Fatal(err)
	}
	wantState(t, c.task("tck-complete-task", nil), a2a.StateCompleted)
}

// goesOnOverGRPC tries that the mesh passes over an address where nothing answers.
func (w *world) goesOnOverGRPC(t *testing.T, dead string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		card := w.Agent.Card()
		one := card.SupportedInterfaces[0]
		one.URL = dead
		card.SupportedInterfaces = append([]a2a.AgentInterface{one}, card.SupportedInterfaces...)
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(card) // a reader that has left
	}))
	defer s.Close()
	v := &world{w.Mesh.register(t, w.Agent, s.URL), w.side}
	wantState(t, v.as(t, v.Alice).task("tck-complete-task", nil), a2a.StateCompleted)
}
