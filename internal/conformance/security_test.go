package conformance

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/control"
)

var securityChecks = map[int]check{
	91: func(t *testing.T, w *world) {
		v := w.another(t, Variant{TLS: true})
		u, err := url.Parse(v.URL)
		if err != nil || u.Scheme != "https" {
			t.Fatalf("the agent is at %s, %v; want an https address", v.URL, err)
		}
		// The certificate is nobody's; what counts here is what is spoken.
		conn, err := tls.Dial("tcp", u.Host, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		if got := conn.ConnectionState().Version; got != tls.VersionTLS13 {
			t.Errorf("version %s is spoken, want TLS 1.3", tls.VersionName(got))
		}
		if conn, err := tls.Dial("tcp", u.Host, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil {
			conn.Close()
			t.Error("TLS 1.1 is spoken")
		}
		resp, err := http.Get("http://" + u.Host + u.Path + a2a.CardPath)
		if err != nil {
			return // nothing is served in the clear
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("the card is served without TLS")
		}
	},
	92: func(t *testing.T, w *world) {
		s := httptest.NewUnstartedServer(w.Agent)
		s.Config.ErrorLog = log.New(io.Discard, "", 0) // it tells of the handshake that fails
		s.StartTLS()                                   // with a certificate that nobody trusts
		defer s.Close()
		if w.through() {
			before := len(w.Agent.CardReads())
			_, err := w.Mesh.control.AddAgent(t.Context(), control.NewAgent{Name: "untrusted", URL: s.URL})
			if after := len(w.Agent.CardReads()); err == nil || after != before {
				t.Errorf("registered with error %v after %d reads of the card, want none", err, after-before)
			}
			return
		}
		conn := w.conn(t, w.Alice)
		conn.Endpoint.URL = s.URL
		before := len(w.Agent.Seen())
		_, err := conn.GetTask(t.Context(), a2a.GetTaskRequest{ID: "t1"})
		var te *a2a.TransportError
		if !errors.As(err, &te) || te.Wrote {
			t.Errorf("got %v, want a failure before anything is sent", err)
		}
		if len(w.Agent.Seen()) != before {
			t.Error("the agent was reached")
		}
	},
	93: func(t *testing.T, w *world) {
		id, _ := w.as(t, w.Alice).held("ref-hold", nil)
		c := w.as(t, "")
		for m, params := range everyOperation(id) {
			c.wantStatus(c.faults(m, params), http.StatusUnauthorized)
		}
		if len(object(w.card(t), "securitySchemes")) == 0 {
			t.Error("the card declares no scheme")
		}
	},
	94: func(t *testing.T, w *world) {
		task := w.as(t, w.Alice).task("ref-auth-required", nil)
		wantState(t, task, a2a.StateAuthRequired)
		if words := texts(object(task, "status", "message")); !strings.Contains(words, "https://") {
			t.Errorf("the task says %q, want where the authorization is given", words)
		}
	},
	95: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		s := c.open("SendStreamingMessage", say("ref-auth-required", nil))
		id := text(s.must("task"), "id")
		for state(s.must("statusUpdate")) != string(a2a.StateAuthRequired) {
		}
		c.task("ref-auth-required", obj{"taskId": id}) // a message is taken meanwhile
		w.drive(t, id, a2a.StateCompleted, "authorized")
		events := s.rest()
		if got := text(events[len(events)-1], "statusUpdate", "status", "state"); got != string(a2a.StateCompleted) {
			t.Errorf("the stream ended on %s, want the end of the task", got)
		}
	},
	98: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		first := c.task("ref-auth-required", nil)
		none := w.as(t, "")
		none.wantStatus(none.call("SendMessage", say("tck-complete-task", obj{"taskId": text(first, "id")})), http.StatusUnauthorized)
		w.drive(t, text(first, "id"), a2a.StateCompleted, "authorized")
		// What was allowed then holds for that task only.
		wantState(t, c.task("ref-auth-required", obj{"contextId": text(first, "contextId")}), a2a.StateAuthRequired)
	},
	99: func(t *testing.T, w *world) {
		if text(w.card(t), "name") == "" {
			t.Error("the card has no name")
		}
	},
	100: func(t *testing.T, w *world) {
		interfaces := list(w.card(t), "supportedInterfaces")
		for _, in := range interfaces {
			x := &world{w.Target, w.side}
			target := *w.Target
			target.URL = text(in, "url")
			x.Target = &target
			c := x.as(t, w.Alice).over(a2a.Binding(text(in, "protocolBinding")))
			switch text(in, "protocolVersion") {
			case "1.0":
				c.must("ListTasks", obj{})
			case "0.3":
				wantOld(t, c.with("A2A-Version", "0.3"))
			default:
				t.Errorf("interface %s, want version 1.0 or 0.3", encode(in))
			}
		}
		if len(interfaces) == 0 {
			t.Error("the card lists no interface")
		}
	},
	101: func(t *testing.T, w *world) {
		for _, tenant := range []string{"", "desk-7"} {
			v := w.another(t, Variant{Agent: a2atest.Options{Tenant: tenant}})
			v.everyCall(t)
			for _, s := range v.Agent.Seen() {
				if s.Tenant != tenant {
					t.Errorf("%s came with tenant %q, the card says %q", s.Method, s.Tenant, tenant)
				}
			}
		}
	},
	102: signatureIsCanonical, 103: signatureNamesKey, 104: signatureIsVerified,
	105: func(t *testing.T, w *world) {
		resp := w.fetchCard(t, http.MethodGet, nil)
		resp.Body.Close()
		tag := resp.Header.Get("ETag")
		if !strings.Contains(resp.Header.Get("Cache-Control"), "max-age=") || tag == "" {
			t.Errorf("Cache-Control %q, ETag %q; want both", resp.Header.Get("Cache-Control"), tag)
		}
		again := w.fetchCard(t, http.MethodGet, http.Header{"If-None-Match": {tag}})
		again.Body.Close()
		if again.StatusCode != http.StatusNotModified {
			t.Errorf("a card that is known: HTTP %d, want 304", again.StatusCode)
		}
		head := w.fetchCard(t, http.MethodHead, nil)
		head.Body.Close()
		if head.StatusCode != http.StatusOK || head.Header.Get("ETag") != tag {
			t.Errorf("HEAD: HTTP %d, ETag %q; want 200 and %q", head.StatusCode, head.Header.Get("ETag"), tag)
		}
	},
	106: func(t *testing.T, w *world) {
		before := w.Agent.CardReads()
		if _, err := w.Mesh.control.RefreshAgent(t.Context(), w.Name); err != nil {
			t.Fatal(err)
		}
		after := w.Agent.CardReads()
		if len(after) != len(before)+1 || after[len(after)-1].Get("If-None-Match") == "" {
			t.Errorf("%d reads more, the last with %v; want one that asks for changes only", len(after)-len(before), after[len(after)-1])
		}
	},
	118: func(t *testing.T, w *world) {
		c, other := w.as(t, w.Alice), w.as(t, w.Bob)
		id, _ := c.held("ref-hold", nil)
		want := encode(c.must("GetTask", obj{"id": id}))
		for m, params := range everyOperation(id) {
			switch m {
			case "ListTasks":
				for _, got := range taskIDs(other.must(m, params)) {
					if got == id {
						t.Error("another's task is listed")
					}
				}
			default:
				if a := other.faults(m, params); a.fault == nil || strings.Contains(string(a.body), "WORKING") {
					t.Errorf("%s on another's task: %s", m, a.body)
				}
			}
		}
		if got := encode(c.must("GetTask", obj{"id": id})); got != want {
			t.Errorf("another's calls changed the task to\n%s\nfrom\n%s", got, want)
		}
	},
	124: func(t *testing.T, w *world) {
		v := w.another(t, Variant{Agent: servedExtended()})
		c := v.as(t, "")
		c.wantStatus(c.call("GetExtendedAgentCard", obj{}), http.StatusUnauthorized)
		a := v.as(t, v.Alice).call("GetExtendedAgentCard", obj{})
		if len(list(a.result, "skills")) != 2 || !w.grpc() && a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("got %s with Cache-Control %q, want the card with its second skill, not to be stored", a.body, a.header.Get("Cache-Control"))
		}
	},
	126: func(t *testing.T, w *world) {
		w.failures(t)
		w.as(t, "Bearer wrong-secret-5512").call("ListTasks", obj{})
		log := w.Log()
		for _, credential := range []string{w.Alice, w.Bob, w.Outsider, "Bearer wrong-secret-5512"} {
			if strings.Contains(log, strings.TrimPrefix(credential, "Bearer ")) {
				t.Errorf("the log holds a credential:\n%s", log)
			}
		}
	},
	130: func(t *testing.T, w *world) {
		trap := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			t.Errorf("the address in a part was fetched: %s", r.URL)
		}))
		defer trap.Close()
		c := w.as(t, w.Alice)
		c.task("tck-complete-task", obj{"parts": []any{obj{"url": trap.URL + "/secret", "mediaType": "text/plain"}}})
		if w.grpc() {
			return // what follows is JSON
		}
		for _, body := range []string{`{"message":{"messageId":"m","role":"ROLE_USER","role":"ROLE_AGENT","parts":[{"text":"a"}]}}`,
			`{"message":` + strings.Repeat(`{"a":`, 200) + `1` + strings.Repeat(`}`, 200) + `}`, `{"message":{"MessageId":"m","role":"ROLE_USER","parts":[{"text":"a"}]}}`} {
			target := c.base + "/message:send"
			if w.rpc() {
				target, body = c.base+"/", `{"jsonrpc":"2.0","id":"row-1","method":"SendMessage","params":`+body+`}`
			}
			resp := c.raw(t.Context(), http.MethodPost, target, "application/json", strings.NewReader(body))
			raw, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || !strings.Contains(string(raw), `"error"`) {
				t.Errorf("%.60s…: got %s, %v; want it refused", body, raw, err)
			}
		}
	},
	131: func(t *testing.T, w *world) {
		resp := w.fetchCard(t, http.MethodGet, nil)
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		card, problems := a2a.ParseCard(raw)
		if card == nil || len(problems) > 0 {
			t.Errorf("the card has problems %v: %s", problems, raw)
		}
	},
}
