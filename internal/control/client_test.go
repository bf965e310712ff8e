package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"

	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

func TestOwnersPrincipalsAndKeys(t *testing.T) {
	m := newMesh(t)
	ctx, c := t.Context(), m.client(t, m.admin)
	o, err := c.CreateOwner(ctx, control.NewOwner{Name: "team", Description: "x"})
	if err != nil || o.Name != "team" || o.Version != 1 || o.CreatedAt.IsZero() {
		t.Fatalf("%+v, %v", o, err)
	}
	if o, err = c.UpdateOwner(ctx, "team", o.Version, control.OwnerChange{Description: "y"}); err != nil || o.Description != "y" {
		t.Errorf("%+v, %v", o, err)
	}
	if got, err := c.Owner(ctx, "team"); err != nil || got != o {
		t.Errorf("%+v, %v", got, err)
	}
	p, err := c.CreatePrincipal(ctx, control.NewPrincipal{Name: "bob", Owner: "team", Environment: parley.Prod, Roles: []parley.Role{parley.RoleOperator}})
	if err != nil || p.Owner != "team" || p.Environment != parley.Prod {
		t.Fatalf("%+v, %v", p, err)
	}
	if p, err = c.UpdatePrincipal(ctx, "bob", p.Version, control.PrincipalChange{Roles: &[]parley.Role{}}); err != nil || len(p.Roles) != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if got, err := c.Principal(ctx, "bob"); err != nil || !cmp.Equal(got, p) {
		t.Errorf("%+v, %v", got, err)
	}
	if page, err := c.Principals(ctx, "team", control.List{}); err != nil || len(page.Items) != 1 || page.Next != "" {
		t.Errorf("%+v, %v", page, err)
	}
	k, err := c.CreateKey(ctx, control.NewKey{Principal: "bob", Note: "n", TTLMs: 3_600_000})
	if err != nil || !strings.HasPrefix(k.Text, "pk_"+k.ID+"_") || k.ExpiresAt == nil || k.ExpiresAt.Sub(k.CreatedAt) != time.Hour || !k.Valid {
		t.Fatalf("%+v, %v", k, err)
	}
	if caller, err := m.dir.Identify(ctx, identity.Credential{XAPIKey: k.Text}); err != nil || caller.Name != "bob" {
		t.Errorf("%+v, %v", caller, err)
	}
	if got, err := c.RevokeKey(ctx, k.ID); err != nil || got.RevokedAt == nil || got.Valid {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := m.dir.Identify(ctx, identity.Credential{XAPIKey: k.Text}); parley.KindOf(err) != parley.Unauthorized {
		t.Errorf("a revoked key: %v", err)
	}
	keys, err := c.Keys(ctx, "bob", control.List{})
	if err != nil || len(keys.Items) != 1 || keys.Items[0].Valid {
		t.Errorf("%+v, %v", keys, err)
	}
	if raw := m.ask(t, m.admin, "GET", "/api/v1/keys/"+k.ID, ""); raw.status != 200 || strings.Contains(raw.body, k.Text[16:]) || strings.Contains(strings.ToLower(raw.body), "hash") {
		t.Errorf("%d %s", raw.status, raw.body)
	}
	if err := c.DeleteOwner(ctx, "team", 0); parley.KindOf(err) != parley.Conflict || !strings.Contains(err.Error(), "bob") {
		t.Errorf("an owner that answers for bob: %v", err)
	}
	if err := c.DeletePrincipal(ctx, "bob", 0); err != nil {
		t.Error(err)
	}
	if err := c.DeleteOwner(ctx, "team", 0); err != nil {
		t.Error(err)
	}
	if _, err := c.Owner(ctx, "team"); parley.KindOf(err) != parley.NotFound {
		t.Errorf("a deleted owner: %v", err)
	}
}

func TestAgents(t *testing.T) {
	m := newMesh(t)
	ctx, c := t.Context(), m.client(t, m.admin)
	if _, err := c.CreateOwner(ctx, control.NewOwner{Name: "team"}); err != nil {
		t.Fatal(err)
	}
	added, err := c.AddAgent(ctx, control.NewAgent{Name: "echo", URL: home, Auth: &control.NewAuth{Kind: registry.Bearer, Secret: "hunter2"}})
	if err != nil || added.Agent.Status != registry.Active || added.Report.Chosen != 0 || len(added.Report.Tried) != 1 {
		t.Fatalf("%+v, %v", added, err)
	}
	d, err := c.Agent(ctx, "echo")
	if err != nil || string(d.Card) != `{"name":"Echo"}` || d.Auth == nil || !strings.HasPrefix(d.Auth.Origin, "https://agent.example") {
		t.Errorf("%+v, %v", d, err)
	}
	if raw := m.ask(t, m.admin, "GET", "/api/v1/agents/echo", ""); strings.Contains(raw.body, "hunter2") {
		t.Errorf("the secret is shown: %s", raw.body)
	}
	if a, err := c.SuspendAgent(ctx, "echo", control.Suspension{Reason: "maintenance"}); err != nil || a.Status != registry.Suspended {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := c.ResumeAgent(ctx, "echo"); err != nil || a.Status != registry.Active {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := c.AllowOwner(ctx, "echo", "team"); err != nil || !slices.Equal(a.Allow, []parley.OwnerName{"team"}) {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := c.DisallowOwner(ctx, "echo", "team"); err != nil || len(a.Allow) != 0 {
		t.Errorf("%+v, %v", a, err)
	}
	if looked, err := c.RefreshAgent(ctx, "echo"); err != nil || looked.Agent.CheckedAt == nil {
		t.Errorf("%+v, %v", looked, err)
	}
	if looked, err := c.RemoveAuth(ctx, "echo"); err != nil || looked.Agent == nil {
		t.Errorf("%+v, %v", looked, err)
	}
	if looked, err := c.SetAuth(ctx, "echo", control.NewAuth{Kind: registry.APIKey, In: "header", Name: "X-Key", Secret: "s"}); err != nil || looked.Agent == nil {
		t.Errorf("%+v, %v", looked, err)
	}
	if _, err := c.ApproveAgent(ctx, "echo", 0); parley.KindOf(err) != parley.Conflict {
		t.Errorf("nothing waits: %v", err)
	}
	if r, err := c.CheckCard(ctx, home); err != nil || r.CardURL != home+"card" || string(r.Card) != `{"name":"Echo"}` {
		t.Errorf("%+v, %v", r, err)
	}
	if page, err := c.Agents(ctx, "default", control.List{}); err != nil || len(page.Items) != 1 {
		t.Errorf("%+v, %v", page, err)
	}
	if k, err := c.CreateKey(ctx, control.NewKey{Agent: "echo"}); err != nil || k.Principal != "echo" {
		t.Errorf("%+v, %v", k, err)
	}
	if err := c.RemoveAgent(ctx, "echo", 0); err != nil {
		t.Error(err)
	}
}

func TestAFailedLookTellsWhatItFound(t *testing.T) {
	m := newMesh(t)
	m.inspect = func(registry.InspectRequest) (*registry.Inspection, error) {
		return &registry.Inspection{Use: -1, Tried: []registry.Attempt{{URL: home, Result: "404"}},
				Problems: []registry.Problem{{Level: registry.Refusal, Path: "/skills", Problem: "is missing", Fix: "add it"}}},
			&parley.Error{Op: "probe", Kind: parley.Invalid, Message: "the card does not pass", Fields: []parley.Field{{Path: "/skills", Problem: "is missing", Fix: "add it"}}}
	}
	c := m.client(t, m.operator)
	got, err := c.AddAgent(t.Context(), control.NewAgent{Name: "echo", URL: home})
	if parley.KindOf(err) != parley.Invalid || got.Agent != nil || got.Report == nil || len(got.Report.Tried) != 1 || len(got.Report.Problems) != 1 || !slices.Equal(fields(err), []string{"/skills"}) {
		t.Errorf("%+v, %v", got.Report, err)
	}
	if r, err := c.CheckCard(t.Context(), home); err != nil || len(r.Problems) != 1 || r.Chosen != -1 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := c.Agent(t.Context(), "echo"); parley.KindOf(err) != parley.NotFound {
		t.Errorf("something was stored: %v", err)
	}
}

func TestCallsAndTasks(t *testing.T) {
	m := newMesh(t)
	ctx, c := t.Context(), m.client(t, m.operator)
	root := m.call(t, "echo", parley.OutcomeOK, nil)
	child := m.call(t, "other", parley.OutcomeOpen, root)
	m.call(t, "third", parley.OutcomeDenied, nil)

	got, err := c.Call(ctx, root.ID.String())
	if err != nil || got.Outcome != "ok" || got.TotalMs != 2 || got.FirstByteMs != 1.5 || got.Steps[0] != (control.CallStep{Name: "identify", TookMs: 0.25}) || got.Root != got.ID || got.Ended == nil {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = c.Call(ctx, child.ID.String())
	if err != nil || got.Outcome != "open" || got.Ended != nil || got.Parent != root.ID.String() || got.Depth != 1 || !slices.Equal(got.Candidates, []string{root.ID.String()}) {
		t.Errorf("%+v, %v", got, err)
	}
	tree, err := c.CallTree(ctx, child.ID.String())
	if err != nil || len(tree.Calls) != 2 || tree.Root != root.ID.String() || tree.Calls[0].ID != root.ID.String() {
		t.Errorf("%+v, %v", tree, err)
	}
	for filter, want := range map[control.CallFilter]int{
		{}: 3, {Caller: "ann"}: 3, {Caller: "bob"}: 0, {Agent: "echo"}: 1, {Outcome: "open"}: 1, {Outcome: "denied"}: 1,
		{Root: root.ID.String()}: 2, {Reference: "order-7"}: 3, {Task: root.TaskID}: 1, {Method: "GetTask"}: 0, {Owner: "default"}: 3,
		{Until: time.Now().Add(-time.Hour)}: 0, {Since: time.Now().Add(-time.Hour)}: 3,
	} {
		if page, err := c.Calls(ctx, filter, control.List{}); err != nil || len(page.Items) != want {
			t.Errorf("%+v gives %d calls, %v; want %d", filter, len(page.Items), err, want)
		}
	}
	if _, err := c.CancelCall(ctx, child.ID.String()); err != nil || !slices.Equal(m.canceled, []parley.CallID{child.ID}) {
		t.Errorf("canceled %v, %v", m.canceled, err)
	}
	if _, err := c.Call(ctx, parley.NewCallID().String()); parley.KindOf(err) != parley.NotFound {
		t.Errorf("an unknown call: %v", err)
	}

	tasks, err := c.Tasks(ctx, control.TaskFilter{}, control.List{})
	if err != nil || len(tasks.Items) != 3 || tasks.Items[0].Principal != "ann" || tasks.Items[0].Snapshot != nil {
		t.Errorf("%+v, %v", tasks, err)
	}
	if tasks, err = c.Tasks(ctx, control.TaskFilter{Agent: "echo", Principal: "ann", State: "TASK_STATE_WORKING", ContextID: "c", Since: time.Now().Add(-time.Hour)}, control.List{}); err != nil || len(tasks.Items) != 1 {
		t.Errorf("%+v, %v", tasks, err)
	}
	one, err := c.Task(ctx, control.TaskRef{Agent: "echo", ID: root.TaskID}, false)
	if err != nil || one.Call != root.ID.String() || one.Snapshot != nil {
		t.Errorf("%+v, %v", one, err)
	}
	if one, err = m.client(t, m.admin).Task(ctx, control.TaskRef{Agent: "echo", ID: root.TaskID}, true); err != nil || !json.Valid(one.Snapshot) {
		t.Errorf("%+v, %v", one, err)
	}
	for _, id := range []string{"a/b", "..", ".", "%2F", "a b?c#d", "ä"} {
		if _, err := c.Task(ctx, control.TaskRef{Agent: "echo", ID: id}, false); parley.KindOf(err) != parley.NotFound {
			t.Errorf("task %q: %v, want not found", id, err)
		}
	}
}

func TestCursorsWalkEveryList(t *testing.T) {
	m := newMesh(t)
	ctx, c := t.Context(), m.client(t, m.admin)
	for i := range 7 {
		if _, err := c.CreateOwner(ctx, control.NewOwner{Name: parley.OwnerName(fmt.Sprintf("o%d", i))}); err != nil {
			t.Fatal(err)
		}
		m.call(t, "echo", parley.OutcomeOK, nil)
	}
	walk := func(name string, get func(context.Context, control.List) ([]string, string, error)) {
		whole, _, err := get(ctx, control.List{Limit: 200})
		if err != nil || len(whole) < 3 {
			t.Fatalf("%s: %d items, %v", name, len(whole), err)
		}
		var paged []string
		for l := (control.List{Limit: 3}); ; {
			items, next, err := get(ctx, l)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			paged = append(paged, items...)
			if next == "" {
				break
			}
			l.Cursor = next
		}
		if diff := cmp.Diff(whole, paged); diff != "" {
			t.Errorf("%s (-whole +paged):\n%s", name, diff)
		}
	}
	walk("owners", func(ctx context.Context, l control.List) ([]string, string, error) {
		p, err := c.Owners(ctx, l)
		return names(p.Items, func(o control.Owner) string { return string(o.Name) }), p.Next, err
	})
	walk("principals", func(ctx context.Context, l control.List) ([]string, string, error) {
		p, err := c.Principals(ctx, "", l)
		return names(p.Items, func(o control.Principal) string { return string(o.Name) }), p.Next, err
	})
	walk("keys", func(ctx context.Context, l control.List) ([]string, string, error) {
		p, err := c.Keys(ctx, "", l)
		return names(p.Items, func(o control.Key) string { return o.ID }), p.Next, err
	})
	walk("calls", func(ctx context.Context, l control.List) ([]string, string, error) {
		p, err := c.Calls(ctx, control.CallFilter{}, l)
		return names(p.Items, func(o control.Call) string { return o.ID }), p.Next, err
	})
	walk("tasks", func(ctx context.Context, l control.List) ([]string, string, error) {
		p, err := c.Tasks(ctx, control.TaskFilter{}, l)
		return names(p.Items, func(o control.Task) string { return o.ID }), p.Next, err
	})
	walk("events", func(ctx context.Context, l control.List) ([]string, string, error) {
		p, err := c.Events(ctx, 0, l)
		return names(p.Items, func(o control.Event) string { return o.ID }), p.Next, err
	})
	owners, err := c.Owners(ctx, control.List{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Calls(ctx, control.CallFilter{}, control.List{Cursor: owners.Next}); !slices.Equal(fields(err), []string{"cursor"}) {
		t.Errorf("a cursor of another list: %v", err)
	}
	count := 0
	for _, err := range control.All(ctx, control.List{Limit: 2}, c.Owners) {
		if err != nil {
			t.Fatal(err)
		}
		count++
	}
	if count != 8 {
		t.Errorf("All gave %d owners, want 8", count)
	}
}

func names[T any](items []T, name func(T) string) []string {
	var out []string
	for _, item := range items {
		out = append(out, name(item))
	}
	return out
}

func TestEventsAreCloudEvents(t *testing.T) {
	m := newMesh(t)
	m.call(t, "echo", parley.OutcomeOK, nil)
	if _, err := m.dir.CreateOwner(t.Context(), "team", ""); err != nil {
		t.Fatal(err)
	}
	raw := m.ask(t, m.operator, "GET", "/api/v1/events?limit=200", "")
	var page struct{ Items []event.Event }
	if err := json.Unmarshal([]byte(raw.body), &page); err != nil || len(page.Items) < 3 {
		t.Fatalf("%v: %s", err, raw.body)
	}
	seen := map[string]bool{}
	for _, e := range page.Items {
		if err := e.Validate(); err != nil {
			t.Errorf("%s: %v", e.Type(), err)
		}
		seen[e.Type()] = true
	}
	for _, want := range []string{"owner.added", "principal.added", "key.created", "call.begun", "call.ended"} {
		if !seen[want] {
			t.Errorf("no event %s", want)
		}
	}
}

var errEnough = errors.New("enough")

func TestFollowEventsGoesOnAfterABrokenConnection(t *testing.T) {
	m := newMesh(t)
	admin := m.client(t, m.admin)
	// Every connection breaks after a few events.
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.server.Config.Handler.ServeHTTP(&cutting{ResponseWriter: w, left: 1500}, r)
	}))
	t.Cleanup(broken.Close)
	c, err := control.NewClient(broken.Client(), broken.URL, m.operator)
	if err != nil {
		t.Fatal(err)
	}
	want := events(t, admin, 0)
	var got []string
	err = c.FollowEvents(t.Context(), 0, func(e control.Event) error {
		if got = append(got, e.ID); len(got) == len(want) {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Error(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-table +followed):\n%s", diff)
	}
}

// cutting breaks the connection once it has written enough.
type cutting struct {
	http.ResponseWriter
	left int
}

func (c *cutting) Write(b []byte) (int, error) {
	if c.left -= len(b); c.left < 0 {
		panic(http.ErrAbortHandler)
	}
	n, err := c.ResponseWriter.Write(b)
	return n, errors.Join(err, http.NewResponseController(c.ResponseWriter).Flush())
}

func (c *cutting) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func events(t *testing.T, c *control.Client, after int64) (ids []string) {
	t.Helper()
	for e, err := range control.All(t.Context(), control.List{}, func(ctx context.Context, l control.List) (control.Page[control.Event], error) {
		return c.Events(ctx, after, l)
	}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.ID)
	}
	return ids
}

func TestFollowEventsFromNow(t *testing.T) {
	m := newMesh(t)
	c, admin := m.client(t, m.operator), m.client(t, m.admin)
	place, err := m.db.LastSeq(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The opening comment is on its way before the owner is made: the server
	// has taken its place in the feed by then.
	resp, err := http.DefaultClient.Do(request(t, m, m.operator))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	opening := make([]byte, 64)
	n, err := resp.Body.Read(opening)
	if err != nil || !strings.HasPrefix(string(opening[:n]), fmt.Sprintf(": events behind %d\n", place)) {
		t.Fatalf("%q, %v", opening[:n], err)
	}
	if _, err := admin.CreateOwner(t.Context(), control.NewOwner{Name: "late"}); err != nil {
		t.Fatal(err)
	}
	message := make([]byte, 4096)
	n, err = resp.Body.Read(message)
	if err != nil || !strings.Contains(string(message[:n]), "event: owner.added\ndata: {") || !strings.Contains(string(message[:n]), `"subject":"owners/late"`) {
		t.Errorf("%q, %v", message[:n], err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = c.FollowEvents(ctx, place, func(e control.Event) error {
		if e.Subject != "owners/late" || e.Place() <= place {
			t.Errorf("%+v", e)
		}
		cancel()
		return nil
	})
	if err != nil {
		t.Errorf("a canceled follow: %v", err)
	}
}

func request(t *testing.T, m *mesh, key string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", m.server.URL+"/api/v1/events/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	return req
}

func TestAStreamEndsWithItsKey(t *testing.T) {
	m := newMesh(t)
	resp, err := http.DefaultClient.Do(request(t, m, m.operator))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	keys, err := m.dir.Keys(t.Context(), "ops", "", 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.dir.RevokeKey(t.Context(), keys[0].ID); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := resp.Body.Read(buf)
		got.Write(buf[:n])
		if err != nil {
			break
		}
	}
	if strings.Contains(got.String(), "data:") {
		t.Errorf("the stream went on: %s", got.String())
	}
	c := m.client(t, m.operator)
	if err := c.FollowEvents(t.Context(), control.FromNow, nil); parley.KindOf(err) != parley.Unauthorized {
		t.Errorf("follow with a revoked key: %v", err)
	}
}

func TestLastEventIDMustBeOne(t *testing.T) {
	m := newMesh(t)
	for _, id := range []string{"x", "-1", "99999999999999999999"} {
		if got := m.ask(t, m.operator, "GET", "/api/v1/events/stream", "", "Last-Event-ID: "+id); got.status != 400 {
			t.Errorf("%s: %d %s", id, got.status, got.body)
		}
	}
}

func TestStatus(t *testing.T) {
	m := newMesh(t)
	m.ask(t, "pk_nonsense", "GET", "/api/v1/status", "")
	got, err := m.client(t, m.operator).Status(t.Context())
	if err != nil || got.MeshID != m.db.MeshID() || !got.Store.Healthy || got.NetworkAllow == nil ||
		!slices.Equal(got.AuthFailures.Reasons, []control.ReasonCount{{Reason: "malformed", Count: 1}}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestClientSaysWhatAnswers(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("the key went to %s", r.URL)
	}))
	defer elsewhere.Close()
	var answer http.HandlerFunc
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r) }))
	defer server.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	ask := func(base string) error {
		c, err := control.NewClient(nil, base, "pk_x")
		if err != nil {
			return err
		}
		_, err = c.Status(t.Context())
		return err
	}
	for name, tc := range map[string]struct {
		base   string
		answer http.HandlerFunc
		kind   parley.Kind
	}{
		"nobody":         {gone.URL, nil, parley.Unavailable},
		"not a mesh":     {server.URL, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, parley.Unavailable},
		"another error":  {server.URL, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }, parley.Unavailable},
		"a redirect":     {server.URL, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, 307) }, parley.Unavailable},
		"a wrong URL":    {"mesh:7400", nil, parley.Invalid},
		"a URL with key": {"http://pk_x@mesh/", nil, parley.Invalid},
	} {
		answer = tc.answer
		if err := ask(tc.base); parley.KindOf(err) != tc.kind || strings.Contains(parley.PublicMessage(err), "dial tcp") {
			t.Errorf("%s: %v, want %v", name, err, tc.kind)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	c, err := control.NewClient(nil, server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Status(ctx); parley.KindOf(err) != parley.Timeout {
		t.Errorf("a passed deadline: %v", err)
	}
}
