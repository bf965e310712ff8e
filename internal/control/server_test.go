package control_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

func TestSecretsNeedAnAdmin(t *testing.T) {
	m := newMesh(t)
	withAuth := `{"name":"echo","url":"https://agent.example/","auth":{"kind":"bearer","secret":"s"}}`
	if got := m.ask(t, m.operator, "POST", "/api/v1/agents", withAuth); got.status != 403 {
		t.Errorf("an operator gave an agent a secret: %d %s", got.status, got.body)
	}
	r := m.call(t, "echo", parley.OutcomeOpen, nil)
	path := "/api/v1/tasks/echo/" + r.TaskID + "?snapshot=true"
	if got := m.ask(t, m.operator, "GET", path, ""); got.status != 403 {
		t.Errorf("an operator read a task's content: %d %s", got.status, got.body)
	}
	if got := m.ask(t, m.admin, "GET", path, ""); got.status != 200 || !strings.Contains(got.body, "payload") {
		t.Errorf("an admin did not: %d %s", got.status, got.body)
	}
}

func TestOpenAPIIsWhole(t *testing.T) {
	m := newMesh(t)
	got := m.ask(t, "", "GET", control.OpenAPIPath, "")
	if got.status != 200 || got.header.Get("Content-Type") != "application/openapi+json" {
		t.Fatalf("%d %v", got.status, got.header)
	}
	var doc struct {
		OpenAPI    string `json:"openapi"`
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Schemas map[string]json.RawMessage }
	}
	if err := json.Unmarshal([]byte(got.body), &doc); err != nil || !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Fatalf("%v, version %q", err, doc.OpenAPI)
	}
	for _, ref := range regexp.MustCompile(`"#/components/schemas/([^"]+)"`).FindAllStringSubmatch(got.body, -1) {
		if doc.Components.Schemas[ref[1]] == nil {
			t.Errorf("schema %s is referred to and missing", ref[1])
		}
	}
	for _, word := range []string{"ErrorModel", "$schema", "PageUnknown"} {
		if strings.Contains(got.body, word) {
			t.Errorf("the description speaks of %s", word)
		}
	}
}

func TestBadRequestsNameTheFieldAndTheFix(t *testing.T) {
	m := newMesh(t)
	for _, tc := range []struct {
		name, method, path, body string
		status                   int
		code                     string
		field, says              string
	}{
		{"unknown member", "POST", "/owners", `{"name":"a","descripton":"x"}`, 400, "invalid", "/descripton", `did you mean "description"?`},
		{"unknown member far from all", "POST", "/owners", `{"name":"a","zzzzzzzzz":1}`, 400, "invalid", "/zzzzzzzzz", "known are name, description"},
		{"unknown nested member", "POST", "/agents", `{"name":"a","url":"x","auth":{"kind":"bearer","secret":"s","secrt":"s"}}`, 400, "invalid", "/auth/secrt", `did you mean "secret"?`},
		{"member in another case", "POST", "/owners", `{"Name":"a"}`, 400, "invalid", "/Name", `did you mean "name"?`},
		{"missing member", "POST", "/owners", `{}`, 400, "invalid", "", "name"},
		{"member of another type", "POST", "/owners", `{"name":7}`, 400, "invalid", "/name", "string"},
		{"member twice", "POST", "/owners", `{"name":"a","name":"b"}`, 400, "invalid", "/name", "twice"},
		{"not JSON", "POST", "/owners", `{"name":`, 400, "invalid", "", "JSON"},
		{"two documents", "POST", "/owners", `{"name":"a"} {}`, 400, "invalid", "", "JSON"},
		{"invalid UTF-8", "POST", "/owners", "{\"name\":\"\xff\"}", 400, "invalid", "", "JSON"},
		{"deep", "POST", "/owners", `{"name":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, 400, "invalid", "", ""},
		{"an array", "POST", "/owners", `[]`, 400, "invalid", "", "object"},
		{"no body", "POST", "/owners", ``, 400, "invalid", "", "missing"},
		{"domain field", "POST", "/owners", `{"name":"A"}`, 400, "invalid", "/name", "team-a"},
		{"registry field", "POST", "/agents", `{"name":"A","url":""}`, 400, "invalid", "/name", ""},
		{"unknown query parameter", "GET", "/calls?agnt=x", ``, 400, "invalid", "agnt", `did you mean "agent"?`},
		{"limit", "GET", "/calls?limit=0", ``, 400, "invalid", "limit", ""},
		{"limit too high", "GET", "/calls?limit=201", ``, 400, "invalid", "limit", ""},
		{"not a number", "GET", "/calls?limit=x", ``, 400, "invalid", "limit", ""},
		{"outcome", "GET", "/calls?outcome=good", ``, 400, "invalid", "outcome", "crash"},
		{"root", "GET", "/calls?root=1", ``, 400, "invalid", "root", "UUID"},
		{"time", "GET", "/calls?since=yesterday", ``, 400, "invalid", "since", ""},
		{"cursor", "GET", "/calls?cursor=abc", ``, 400, "invalid", "cursor", "next"},
		{"call id", "GET", "/calls/1", ``, 400, "invalid", "id", "UUID"},
		{"endless ttl", "POST", "/keys", `{"principal":"ann","ttlMs":9223372036854775807}`, 400, "invalid", "/ttlMs", "milliseconds"},
		{"negative ttl", "POST", "/keys", `{"principal":"ann","ttlMs":-9223372036854775808}`, 400, "invalid", "/ttlMs", "milliseconds"},
		{"missing thing", "GET", "/owners/nobody", ``, 404, "not_found", "", ""},
		{"missing resource", "GET", "/nothing", ``, 404, "not_found", "", "openapi"},
		{"wrong method", "PUT", "/owners", ``, 405, "invalid", "", "GET or POST"},
		{"too large", "POST", "/owners", `{"name":"` + strings.Repeat("a", 70<<10) + `"}`, 413, "invalid", "", "65536 bytes"},
		{"name taken", "POST", "/owners", `{"name":"default"}`, 409, "conflict", "/name", "another name"},
		{"default owner", "DELETE", "/owners/default", ``, 409, "conflict", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := m.ask(t, m.admin, tc.method, control.Prefix+tc.path, tc.body)
			p := got.problem(t)
			if got.status != tc.status || p.Code != tc.code {
				t.Errorf("got %d %s, want %d %s: %s", got.status, p.Code, tc.status, tc.code, got.body)
			}
			found := tc.field == ""
			for _, f := range p.Fields {
				found = found || f.Path == tc.field
				if f.Problem == "" {
					t.Errorf("a field without a problem: %s", got.body)
				}
			}
			var text struct{ Detail string }
			if err := json.Unmarshal([]byte(got.body), &text); err != nil || !found || !strings.Contains(strings.ReplaceAll(got.body, `\"`, `"`), tc.says) {
				t.Errorf("want field %q and the words %q in %s", tc.field, tc.says, got.body)
			}
		})
	}
	if got := m.ask(t, m.admin, "POST", "/api/v1/owners", `name: a`, "Content-Type: application/yaml"); got.status != 415 || got.problem(t).Code != "invalid" {
		t.Errorf("YAML: %d %s", got.status, got.body)
	}
}

func TestARefusedSecretIsNotRepeated(t *testing.T) {
	m := newMesh(t)
	for _, body := range []string{
		`{"kind":"bearer","secret":["hunter2"]}`,
		`{"kind":"bearer","secret":"hunter2"`,
		`{"kind":"bearer","secret":"hunter2","secret":"hunter2"}`,
		`{"kind":"nonsense","secret":"hunter2","x":"hunter2"}`,
	} {
		got := m.ask(t, m.admin, "PUT", "/api/v1/agents/echo/auth", body)
		if got.status < 400 || strings.Contains(got.body, "hunter2") || strings.Contains(m.log.String(), "hunter2") {
			t.Errorf("%s: %d %s; log %s", body, got.status, got.body, m.log)
		}
	}
}

func TestInternalCausesStayInside(t *testing.T) {
	m := newMesh(t)
	m.mu.Lock()
	m.status = fmt.Errorf("dial tcp 10.1.2.3: secret cause")
	m.mu.Unlock()
	got := m.ask(t, m.admin, "GET", "/api/v1/status", "")
	if p := got.problem(t); got.status != 500 || p.Code != "internal" || strings.Contains(got.body, "secret cause") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if !strings.Contains(m.log.String(), "secret cause") {
		t.Errorf("the operator's log does not have it: %s", m.log)
	}
}

// TestOnlyFailuresOfTheMeshAlarmTheOperator: a mistake in what was asked for is
// no line that a person must look at, whichever part found it.
func TestOnlyFailuresOfTheMeshAlarmTheOperator(t *testing.T) {
	m := newMesh(t)
	m.mu.Lock()
	m.inspect = func(registry.InspectRequest) (*registry.Inspection, error) {
		return nil, parley.E("probe.inspect", parley.AgentFailed, "echo", "no agent card was found", nil)
	}
	m.mu.Unlock()
	for _, ask := range [][3]string{
		{"GET", "/api/v1/calls/xyz", ""}, {"GET", "/api/v1/agents/none", ""}, {"GET", "/api/v1/none", ""},
		{"POST", "/api/v1/agents", `{"name":"echo","url":"` + home + `"}`}, {"POST", "/api/v1/agents", `{"name":"Not a name","url":""}`},
	} {
		if got := m.ask(t, m.admin, ask[0], ask[1], ask[2]); got.status < 400 {
			t.Errorf("%v: %d %s", ask, got.status, got.body)
		}
	}
	if said := m.log.String(); strings.Contains(said, "level=ERROR") || strings.Contains(said, "level=WARN") {
		t.Errorf("the log: %s", said)
	}
	m.mu.Lock()
	m.inspect = func(registry.InspectRequest) (*registry.Inspection, error) {
		return nil, parley.E("store.agent", parley.Internal, "echo", "failed", errors.New("secret cause"))
	}
	m.mu.Unlock()
	m.ask(t, m.admin, "POST", "/api/v1/agents", `{"name":"echo","url":"`+home+`"}`)
	if said := m.log.String(); strings.Count(said, "level=ERROR") != 1 || !strings.Contains(said, "secret cause") {
		t.Errorf("the log of a failure of the mesh: %s", said)
	}
}

func TestEveryKindComesBackAsItself(t *testing.T) {
	m := newMesh(t)
	c := m.client(t, m.admin)
	r := m.call(t, "echo", parley.OutcomeOpen, nil)
	for k := parley.Internal; k <= parley.Unsupported; k++ {
		m.mu.Lock()
		m.cancel = &parley.Error{Op: "gateway.cancel", Kind: k, Message: "because of " + k.String(),
			Fields: []parley.Field{{Path: "/id", Problem: "p", Fix: "f"}}, Err: fmt.Errorf("secret cause")}
		m.mu.Unlock()
		_, err := c.CancelCall(t.Context(), r.ID.String())
		e, ok := errors.AsType[*parley.Error](err)
		if !ok || e.Kind != k || e.Message != "because of "+k.String() || len(e.Fields) != 1 || e.Fields[0].Fix != "f" || strings.Contains(err.Error(), "secret cause") {
			t.Errorf("%v came back as %v", k, err)
		}
	}
}

func TestTooManyFailuresSayWhenToComeBack(t *testing.T) {
	m := newMesh(t)
	text, _ := identity.NewKey("ann", "", time.Now(), 0)
	for range 200 {
		if got := m.ask(t, text, "GET", "/api/v1/status", ""); got.status != 401 {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	got := m.ask(t, text, "GET", "/api/v1/status", "")
	if p := got.problem(t); got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") == "" || p.RetryAfterMs <= 0 {
		t.Errorf("%d %v %s", got.status, got.header, got.body)
	}
}

func TestTheSocketNeedsNoKey(t *testing.T) {
	m := newMesh(t)
	c := control.NewSocketClient(m.socket(t))
	defer c.Close()
	if _, err := c.CreateOwner(t.Context(), control.NewOwner{Name: "team"}); err != nil {
		t.Error(err)
	}
	// The same over TCP does not, whatever the request claims.
	got := m.ask(t, "", "GET", "/api/v1/owners", "", "X-Forwarded-Proto: unix", "Forwarded: for=unix")
	if got.status != 401 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestEditsAreGuardedByETag(t *testing.T) {
	m := newMesh(t)
	for _, path := range []string{"/owners/default", "/principals/ann"} {
		first := m.ask(t, m.admin, "GET", control.Prefix+path, "")
		tag := first.header.Get("ETag")
		if tag == "" {
			t.Fatalf("%s has no ETag", path)
		}
		next := m.ask(t, m.admin, "PATCH", control.Prefix+path, `{"description":"one"}`, "If-Match: "+tag)
		if next.status != 200 || next.header.Get("ETag") == tag {
			t.Errorf("%s: %d %v %s", path, next.status, next.header, next.body)
		}
		for _, method := range []string{"PATCH", "DELETE"} {
			body := ""
			if method == "PATCH" {
				body = `{"description":"two"}`
			}
			if path == "/owners/default" && method == "DELETE" {
				continue
			}
			stale := m.ask(t, m.admin, method, control.Prefix+path, body, "If-Match: "+tag)
			if p := stale.problem(t); stale.status != http.StatusPreconditionFailed || p.Code != "conflict" {
				t.Errorf("%s %s on an old state: %d %s", method, path, stale.status, stale.body)
			}
		}
		for _, bad := range []string{"3", `W/"3"`, `"x"`, `"-1"`} {
			if got := m.ask(t, m.admin, "PATCH", control.Prefix+path, `{"description":"x"}`, "If-Match: "+bad); got.status != 400 {
				t.Errorf("If-Match %s: %d", bad, got.status)
			}
		}
	}
	c := m.client(t, m.admin)
	added, err := c.AddAgent(t.Context(), control.NewAgent{Name: "echo", URL: home})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.RemoveAgent(t.Context(), "echo", added.Agent.Version+1); parley.KindOf(err) != parley.Conflict {
		t.Errorf("removed on an old state: %v", err)
	}
	if err := c.RemoveAgent(t.Context(), "echo", added.Agent.Version); err != nil {
		t.Error(err)
	}
}

func TestARepeatedWriteHappensOnce(t *testing.T) {
	m := newMesh(t)
	key := "Idempotency-Key: k1"
	body := `{"principal":"ann","note":"laptop"}`
	first := m.ask(t, m.admin, "POST", "/api/v1/keys", body, key)
	again := m.ask(t, m.admin, "POST", "/api/v1/keys", body, key)
	if first.status != 201 || again.status != 201 || first.body != again.body || again.header.Get("Idempotency-Replayed") != "true" || first.header.Get("Location") != again.header.Get("Location") {
		t.Errorf("first %d %s\nagain %d %s %v", first.status, first.body, again.status, again.body, again.header)
	}
	keys, err := m.db.Keys(t.Context(), "ann", "", 10)
	if err != nil || len(keys) != 2 {
		t.Errorf("ann has %d keys, %v; want the first and one more", len(keys), err)
	}
	other := m.ask(t, m.admin, "POST", "/api/v1/keys", `{"principal":"ops"}`, key)
	if p := other.problem(t); other.status != 409 || p.Code != "conflict" {
		t.Errorf("another request under the same key: %d %s", other.status, other.body)
	}
	// The key of one principal says nothing to another's.
	second := m.principal(t, "root-two", parley.RoleAdmin)
	if got := m.ask(t, second, "POST", "/api/v1/keys", body, key); got.status != 201 || got.body == first.body {
		t.Errorf("another principal was given the answer: %d %s", got.status, got.body)
	}
	// What failed may be tried again.
	if got := m.ask(t, m.admin, "POST", "/api/v1/keys", `{"agent":"echo"}`, "Idempotency-Key: k2"); got.status != 400 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if _, err := m.client(t, m.admin).AddAgent(t.Context(), control.NewAgent{Name: "echo", URL: home}); err != nil {
		t.Fatal(err)
	}
	if got := m.ask(t, m.admin, "POST", "/api/v1/keys", `{"agent":"echo"}`, "Idempotency-Key: k2"); got.status != 201 {
		t.Errorf("%d %s", got.status, got.body)
	}
	// A replay is still for those who may.
	if got := m.ask(t, m.operator, "POST", "/api/v1/keys", body, key); got.status != 403 {
		t.Errorf("an operator: %d %s", got.status, got.body)
	}
	if got := m.ask(t, m.admin, "POST", "/api/v1/keys", body, "Idempotency-Key: "+strings.Repeat("k", 256)); got.status != 400 {
		t.Errorf("a long key: %d %s", got.status, got.body)
	}
}
