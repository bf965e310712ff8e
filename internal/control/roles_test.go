package control_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
)

// cells make the request of every row of the role table, for things of one of
// two owners. Where what is asked for has no owner, both are the same. Requests
// that are let through must not spoil the things that later ones ask for: an
// If-Match that never fits keeps what would be removed.
var cells = map[string]func(f *fixture, owner parley.OwnerName) asked{
	"getStatus": at("GET", "/status"),
	"whoAmI":    at("GET", "/whoami"),
	"apply":     at("POST", "/apply", `{"documents":[]}`),
	"backup":    at("GET", "/backup"),

	"listOwners":  at("GET", "/owners"),
	"getOwner":    at("GET", "/owners/OWNER"),
	"createOwner": at("POST", "/owners", `{"name":"new-N"}`),
	"updateOwner": at("PATCH", "/owners/OWNER", `{"description":"x"}`),
	"deleteOwner": stale("DELETE", "/owners/OWNER"),

	"listPrincipals":      at("GET", "/principals"),
	"getPrincipal":        at("GET", "/principals/OWNER-job"),
	"createPrincipal":     at("POST", "/principals", `{"name":"new-N","owner":"OWNER"}`),
	"updatePrincipal":     at("PATCH", "/principals/OWNER-job", `{"description":"x"}`),
	"deletePrincipal":     stale("DELETE", "/principals/OWNER-job"),
	"freezePrincipal":     at("POST", "/principals/OWNER-held/freeze", `{"reason":"x"}`),
	"unfreezePrincipal":   at("POST", "/principals/OWNER-held/unfreeze"),
	"listPrincipalNames":  at("GET", "/principals/OWNER-job/names"),
	"linkPrincipalName":   at("POST", "/principals/OWNER-job/names", `{"kind":"dns","name":"n-N.example.com"}`),
	"unlinkPrincipalName": at("DELETE", "/principals/OWNER-job/names?kind=dns&name=none.example.com"),

	"listSubjects":  at("GET", "/principals/OWNER-job/subjects"),
	"linkSubject":   at("POST", "/principals/OWNER-job/subjects", `{"issuer":"https://login.example","subject":"s-N"}`),
	"unlinkSubject": at("DELETE", "/principals/OWNER-job/subjects?issuer=https%3A%2F%2Flogin.example&subject=s"),

	"listKeys":  at("GET", "/keys?principal=OWNER-job"),
	"getKey":    at("GET", "/keys/KEY"),
	"createKey": at("POST", "/keys", `{"principal":"OWNER-job"}`),
	"revokeKey": at("POST", "/keys/KEY/revoke"),

	"listAgents":       at("GET", "/agents"),
	"getAgent":         at("GET", "/agents/OWNER-agent"),
	"addAgent":         at("POST", "/agents", `{"name":"new-N","url":"https://agent.example/","owner":"OWNER"}`),
	"addAgent#auth":    at("POST", "/agents", `{"name":"new-N","url":"https://agent.example/","owner":"OWNER","auth":{"kind":"bearer","secret":"s"}}`),
	"removeAgent":      stale("DELETE", "/agents/OWNER-agent"),
	"refreshAgent":     at("POST", "/agents/OWNER-agent/refresh"),
	"approveAgent":     at("POST", "/agents/OWNER-agent/approve"),
	"suspendAgent":     at("POST", "/agents/OWNER-held/suspend", `{"reason":"x"}`),
	"resumeAgent":      at("POST", "/agents/OWNER-held/resume"),
	"allowOwner":       at("PUT", "/agents/OWNER-agent/allow/default"),
	"disallowOwner":    at("DELETE", "/agents/OWNER-agent/allow/default"),
	"setAuth":          at("PUT", "/agents/OWNER-agent/auth", `{"kind":"bearer","secret":"s"}`),
	"removeAuth":       at("DELETE", "/agents/OWNER-agent/auth"),
	"listInstances":    at("GET", "/agents/OWNER-agent/instances"),
	"addInstance":      at("POST", "/agents/OWNER-agent/instances", `{"url":"https://agent.example/"}`),
	"addInstance#auth": at("POST", "/agents/OWNER-agent/instances", `{"url":"https://agent.example/","credential":true}`),
	"removeInstance":   at("DELETE", "/agents/OWNER-agent/instances/none"),
	"checkCard":        at("POST", "/cards/check", `{"url":"https://agent.example/"}`),

	"listCalls":   at("GET", "/calls?owner=OWNER"),
	"getCall":     at("GET", "/calls/CALL"),
	"getCallTree": at("GET", "/calls/CALL/tree"),
	"cancelCall":  at("POST", "/calls/CALL/cancel"),

	"listPushes":      at("GET", "/pushes?owner=OWNER"),
	"retryPush":       at("POST", "/pushes/none/retry"),
	"listDeadLetters": at("GET", "/dead-letters?owner=OWNER"),
	"retryDeadLetter": at("POST", "/dead-letters/none-1/retry"),

	"listTasks":        at("GET", "/tasks"),
	"getTask":          at("GET", "/tasks/OWNER-agent/TASK"),
	"getTask#snapshot": at("GET", "/tasks/OWNER-agent/TASK?snapshot=true"),

	"listEvents":   at("GET", "/events"),
	"streamEvents": at("GET", "/events/stream?after=x"), // refused once it is permitted: a stream would not end
}

// boundLists are lists that show a caller of reach own its own things: there is
// no asking for others'. TestOwnListsShowNothingElse looks at what they show.
var boundLists = []string{"listTasks"}

type asked struct{ method, path, body, ifMatch string }

func at(method, path string, body ...string) func(*fixture, parley.OwnerName) asked {
	return func(f *fixture, owner parley.OwnerName) asked {
		f.made++
		with := strings.NewReplacer("OWNER", string(owner), "-N", fmt.Sprintf("-%d", f.made),
			"KEY", f.keys[owner], "CALL", f.calls[owner].ID.String(), "TASK", f.calls[owner].TaskID)
		return asked{method: method, path: control.Prefix + with.Replace(path), body: with.Replace(strings.Join(body, ""))}
	}
}

func stale(method, path string) func(*fixture, parley.OwnerName) asked {
	return func(f *fixture, owner parley.OwnerName) asked {
		r := at(method, path)(f, owner)
		r.ifMatch = `If-Match: "999"`
		return r
	}
}

// fixture is a mesh in which two owners have one thing of every kind, and one
// of them a principal of every role.
type fixture struct {
	*mesh
	roleKeys map[parley.Role]string // of principals of owner mine
	keys     map[parley.OwnerName]string
	calls    map[parley.OwnerName]*call.Record
	made     int
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{mesh: newMesh(t), roleKeys: map[parley.Role]string{}, keys: map[parley.OwnerName]string{}, calls: map[parley.OwnerName]*call.Record{}}
	ctx, admin := t.Context(), f.client(t, f.admin)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, owner := range []parley.OwnerName{"mine", "theirs"} {
		job, agent := parley.PrincipalName(owner+"-job"), parley.AgentName(owner+"-agent")
		_, err := admin.CreateOwner(ctx, control.NewOwner{Name: owner})
		must(err)
		_, err = admin.CreatePrincipal(ctx, control.NewPrincipal{Name: job, Owner: owner})
		must(err)
		_, err = admin.AddAgent(ctx, control.NewAgent{Name: agent, URL: home, Owner: owner})
		must(err)
		_, err = admin.CreatePrincipal(ctx, control.NewPrincipal{Name: parley.PrincipalName(owner + "-held"), Owner: owner})
		must(err)
		_, err = admin.AddAgent(ctx, control.NewAgent{Name: parley.AgentName(owner + "-held"), URL: home, Owner: owner})
		must(err)
		key, err := admin.CreateKey(ctx, control.NewKey{Principal: job})
		must(err)
		f.keys[owner] = key.ID
		f.calls[owner] = f.callOf(t, owner, job, agent)
	}
	for _, role := range parley.Roles {
		f.roleKeys[role] = f.keyOf(t, parley.PrincipalName("role-"+role), "mine", parley.Dev, role)
	}
	f.roleKeys["none"] = f.keyOf(t, "role-none", "mine", parley.Dev)
	return f
}

// callOf keeps an open call with a task.
func (f *fixture) callOf(t *testing.T, owner parley.OwnerName, caller parley.PrincipalName, agent parley.AgentName) *call.Record {
	t.Helper()
	r := &call.Record{
		ID: parley.NewCallID(), Caller: caller, CallerOwner: owner, Environment: parley.Dev, Agent: agent, AgentOwner: owner,
		Method: "SendMessage", Begun: time.Now(), Deadline: time.Now().Add(time.Hour),
	}
	r.Root, r.Link = r.ID, call.Link{Kind: call.LinkRoot}
	if err := f.db.Begin(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	r.TaskID, r.TaskState = string(owner)+"-task", "TASK_STATE_WORKING"
	task := &call.Task{
		Agent: agent, ID: r.TaskID, Principal: caller, Owner: owner, State: r.TaskState, StatusAt: time.Now(),
		Call: r.ID, UpdatedAt: time.Now(), Snapshot: []byte(`{"id":"x"}`),
	}
	if err := f.db.Settle(t.Context(), call.Settlement{Record: r, Task: task}, true); err != nil {
		t.Fatal(err)
	}
	return r
}

// keyOf makes a principal and gives a key of it.
func (f *fixture) keyOf(t *testing.T, name parley.PrincipalName, owner parley.OwnerName, env parley.Environment, roles ...parley.Role) string {
	t.Helper()
	if _, err := f.dir.CreatePrincipal(t.Context(), identity.NewPrincipal{Name: name, Owner: owner, Environment: env, Roles: roles}); err != nil {
		t.Fatal(err)
	}
	text, _, err := f.dir.CreateKey(t.Context(), identity.KeyRequest{Principal: name})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (f *fixture) try(t *testing.T, key string, r asked) answer {
	t.Helper()
	if r.ifMatch != "" {
		return f.ask(t, key, r.method, r.path, r.body, r.ifMatch)
	}
	return f.ask(t, key, r.method, r.path, r.body)
}

// TestEveryRoleMayWhatTheTableSays asks the API for every cell of the table.
func TestEveryRoleMayWhatTheTableSays(t *testing.T) {
	f := newFixture(t)
	for id, grants := range control.RoleTable {
		make := cells[id]
		if make == nil {
			t.Errorf("nothing asks for %s: add it to cells", id)
			continue
		}
		for role, key := range f.roleKeys {
			for _, owner := range []parley.OwnerName{"mine", "theirs"} {
				if owner == "theirs" && slices.Contains(boundLists, id) {
					continue
				}
				reach := grants.Of(role)
				want := reach == control.ReachAll || reach == control.ReachOwn && owner == "mine"
				got := f.try(t, key, make(f, owner))
				if allowed := got.status != 403; allowed != want || got.status == 401 || got.status >= 500 {
					t.Errorf("%s as %s, of owner %s: %d, want allowed %t: %s", id, role, owner, got.status, want, got.body)
				}
				if got.status == 403 && !strings.Contains(got.problem(t).Detail, "parley principal update role-") {
					t.Errorf("%s as %s: the refusal names no command: %s", id, role, got.body)
				}
			}
		}
		got := f.try(t, "", make(f, "mine"))
		if got.status != 401 || got.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s without a credential: %d %v", id, got.status, got.header)
		}
	}
}

// TestRoleTableMatchesTheDocument: an operation without a row, a row without an
// operation, and a request to another operation than its row's are found.
func TestRoleTableMatchesTheDocument(t *testing.T) {
	f := newFixture(t)
	var doc struct {
		Paths map[string]map[string]struct{ OperationID, Description string }
	}
	if err := json.Unmarshal([]byte(f.ask(t, "", "GET", control.OpenAPIPath, "").body), &doc); err != nil {
		t.Fatal(err)
	}
	served := map[string]string{} // operation -> method and path
	for path, methods := range doc.Paths {
		for method, op := range methods {
			served[op.OperationID] = strings.ToUpper(method) + " " + path
			if !strings.Contains(op.Description, "Roles: admin") {
				t.Errorf("%s does not say who may: %q", op.OperationID, op.Description)
			}
		}
	}
	rows := map[string]bool{}
	for id := range control.RoleTable {
		operation, _, _ := strings.Cut(id, "#")
		rows[operation] = true
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(rows)), slices.Sorted(maps.Keys(served))); diff != "" {
		t.Errorf("operations (-rows +served):\n%s", diff)
	}
	for id, make := range cells {
		operation, _, _ := strings.Cut(id, "#")
		method, pattern, _ := strings.Cut(served[operation], " ")
		r := make(f, "mine")
		path, _, _ := strings.Cut(r.path, "?")
		if r.method != method || !fits(pattern, path) {
			t.Errorf("the request for %s is %s %s, the operation %s %s", id, r.method, path, method, pattern)
		}
	}
}

// fits reports whether a path is one of a pattern as /a/{b}.
func fits(pattern, path string) bool {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	return slices.EqualFunc(want, got, func(w, g string) bool { return w == g || strings.HasPrefix(w, "{") })
}

// What is not the caller's own is not shown in lists either.
func TestOwnListsShowNothingElse(t *testing.T) {
	f := newFixture(t)
	f.callOf(t, "theirs", "theirs-job", "theirs-agent")
	for _, role := range []parley.Role{parley.RoleViewer, parley.RoleRegistrar} {
		for _, path := range []string{"/calls", "/calls?agent=theirs-agent", "/tasks", "/tasks?principal=theirs-job", "/calls/" + f.calls["mine"].ID.String() + "/tree"} {
			got := f.ask(t, f.roleKeys[role], "GET", control.Prefix+path, "")
			if got.status != 200 || strings.Contains(got.body, `"theirs`) {
				t.Errorf("%s reads %s: %d %s", role, path, got.status, got.body)
			}
		}
		got := f.ask(t, f.roleKeys[role], "GET", control.Prefix+"/tasks", "")
		if !strings.Contains(got.body, "mine-task") {
			t.Errorf("%s does not see the own owner's task: %s", role, got.body)
		}
	}
	if got := f.ask(t, f.roleKeys[parley.RoleRegistrar], "GET", control.Prefix+"/keys", ""); got.status != 403 || !strings.Contains(got.body, "--for") {
		t.Errorf("a registrar lists all keys: %d %s", got.status, got.body)
	}
}

// TestNobodyGainsRights: whatever a role may do, it ends with no more rights
// than it had.
func TestNobodyGainsRights(t *testing.T) {
	f := newFixture(t)
	f.keyOf(t, "mine-operator", "mine", parley.Dev, parley.RoleOperator)
	f.keyOf(t, "mine-prod", "mine", parley.Prod)
	_, operatorKey, err := f.dir.CreateKey(t.Context(), identity.KeyRequest{Principal: "mine-operator"})
	if err != nil {
		t.Fatal(err)
	}
	admin := f.client(t, f.admin)
	if _, err := admin.AddAgent(t.Context(), control.NewAgent{Name: "mine-bot", URL: home, Owner: "mine"}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CreateKey(t.Context(), control.NewKey{Agent: "mine-bot"}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.UpdatePrincipal(t.Context(), "mine-bot", 0, control.PrincipalChange{Roles: &[]parley.Role{parley.RoleOperator}}); err != nil {
		t.Fatal(err)
	}
	f.keyOf(t, "mine-frozen", "mine", parley.Dev)
	if _, err := admin.FreezePrincipal(t.Context(), "mine-frozen", "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.AddAgent(t.Context(), control.NewAgent{Name: "mine-stopped", URL: home, Owner: "mine"}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.SuspendAgent(t.Context(), "mine-stopped", control.Suspension{Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name               string
		role               parley.Role
		method, path, body string
	}{
		{"makes an admin", parley.RoleRegistrar, "POST", "/principals", `{"name":"x1","owner":"mine","roles":["admin"]}`},
		{"makes an operator beside what it has", parley.RoleRegistrar, "POST", "/principals", `{"name":"x2","owner":"mine","roles":["registrar","operator"]}`},
		{"makes itself an operator", parley.RoleRegistrar, "PATCH", "/principals/role-registrar", `{"roles":["registrar","operator"]}`},
		{"gives a role to another", parley.RoleRegistrar, "PATCH", "/principals/mine-job", `{"roles":["auditor"]}`},
		{"takes a role from an operator", parley.RoleRegistrar, "PATCH", "/principals/mine-operator", `{"roles":[]}`},
		{"describes an operator", parley.RoleRegistrar, "PATCH", "/principals/mine-operator", `{"description":"x"}`},
		{"makes a key for an operator", parley.RoleRegistrar, "POST", "/keys", `{"principal":"mine-operator"}`},
		{"makes a key for an agent that is an operator", parley.RoleRegistrar, "POST", "/keys", `{"agent":"mine-bot"}`},
		{"makes a key for that agent by its principal", parley.RoleRegistrar, "POST", "/keys", `{"principal":"mine-bot"}`},
		{"revokes an operator's key", parley.RoleRegistrar, "POST", "/keys/" + operatorKey.ID + "/revoke", ``},
		{"removes an operator", parley.RoleRegistrar, "DELETE", "/principals/mine-operator", ``},
		{"freezes somebody", parley.RoleRegistrar, "POST", "/principals/mine-job/freeze", `{"reason":"x"}`},
		{"freezes an admin", parley.RoleOperator, "POST", "/principals/root/freeze", `{"reason":"x"}`},
		{"freezes itself", parley.RoleOperator, "POST", "/principals/role-operator/freeze", `{"reason":"x"}`},
		{"makes a principal of another owner", parley.RoleRegistrar, "POST", "/principals", `{"name":"x3","owner":"theirs"}`},
		{"makes one of the default owner", parley.RoleRegistrar, "POST", "/principals", `{"name":"x4"}`},
		{"makes one in another environment", parley.RoleRegistrar, "POST", "/principals", `{"name":"x5","owner":"mine","environment":"prod"}`},
		{"makes a key in another environment", parley.RoleRegistrar, "POST", "/keys", `{"principal":"mine-prod"}`},
		{"registers an agent in another environment", parley.RoleRegistrar, "POST", "/agents", `{"name":"x6","url":"https://agent.example/","owner":"mine","environment":"prod"}`},
		{"opens another owner's agent to itself", parley.RoleRegistrar, "PUT", "/agents/theirs-agent/allow/mine", ``},
		{"removes an agent that is suspended", parley.RoleRegistrar, "DELETE", "/agents/mine-stopped", ``},
		{"resumes it", parley.RoleRegistrar, "POST", "/agents/mine-stopped/resume", ``},
		{"removes a principal that is frozen", parley.RoleRegistrar, "DELETE", "/principals/mine-frozen", ``},
		{"makes a key for it", parley.RoleRegistrar, "POST", "/keys", `{"principal":"mine-frozen"}`},
		{"unfreezes it", parley.RoleRegistrar, "POST", "/principals/mine-frozen/unfreeze", ``},
		{"links a name", parley.RoleRegistrar, "POST", "/principals/mine-job/names", `{"kind":"dns","name":"a.example.com"}`},
		{"makes a principal", parley.RoleOperator, "POST", "/principals", `{"name":"x7","owner":"mine"}`},
		{"makes a key", parley.RoleOperator, "POST", "/keys", `{"principal":"root"}`},
	} {
		got := f.ask(t, f.roleKeys[tc.role], tc.method, control.Prefix+tc.path, tc.body)
		if got.status != 403 || got.problem(t).Code != "denied" {
			t.Errorf("a %s %s: %d %s", tc.role, tc.name, got.status, got.body)
		}
	}
	registrar := f.client(t, f.roleKeys[parley.RoleRegistrar])
	if _, err := registrar.CreatePrincipal(t.Context(), control.NewPrincipal{Name: "helper", Owner: "mine", Roles: []parley.Role{parley.RoleRegistrar}}); err != nil {
		t.Errorf("a registrar gives the role it has: %v", err)
	}
	if _, err := registrar.CreateKey(t.Context(), control.NewKey{Principal: "helper"}); err != nil {
		t.Errorf("a registrar makes a key for its equal: %v", err)
	}
	if _, err := registrar.CreateKey(t.Context(), control.NewKey{Agent: "mine-agent"}); err != nil {
		t.Errorf("a registrar makes a key for its agent: %v", err)
	}
}

// A frozen principal is refused with a code of its own, and freezing it again
// and taking it back are harmless.
func TestFrozenPrincipalsAreRefused(t *testing.T) {
	f := newFixture(t)
	viewer := f.roleKeys[parley.RoleViewer]
	operator := f.client(t, f.roleKeys[parley.RoleOperator])
	for range 2 {
		p, err := operator.FreezePrincipal(t.Context(), "role-viewer", "key was leaked")
		if err != nil || p.FrozenAt == nil || p.FrozenReason != "key was leaked" {
			t.Fatalf("%+v, %v", p, err)
		}
	}
	got := f.ask(t, viewer, "GET", control.Prefix+"/status", "")
	if p := got.problem(t); got.status != 403 || p.Code != "principal_frozen" || !strings.Contains(p.Detail, "key was leaked") || !strings.Contains(p.Detail, "parley principal unfreeze role-viewer") {
		t.Errorf("a frozen principal: %d %s", got.status, got.body)
	}
	if _, err := f.client(t, viewer).Status(t.Context()); parley.KindOf(err) != parley.Frozen {
		t.Errorf("the client makes of it %v", err)
	}
	for range 2 {
		if p, err := operator.UnfreezePrincipal(t.Context(), "role-viewer"); err != nil || p.FrozenAt != nil {
			t.Fatalf("%+v, %v", p, err)
		}
	}
	if got := f.ask(t, viewer, "GET", control.Prefix+"/status", ""); got.status != 200 {
		t.Errorf("after it was unfrozen: %d %s", got.status, got.body)
	}
	if _, err := operator.FreezePrincipal(t.Context(), "mine-job", ""); !slices.Equal(fields(err), []string{"/reason"}) {
		t.Errorf("a freeze without a reason: %v", err)
	}
}
