package apply_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/apply"
	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/manifest"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
	"github.com/parley-mesh/parley/internal/store"
	"github.com/parley-mesh/parley/internal/storetest/pgtest"
)

// bed is an engine over the real store, with agents that a function plays.
type bed struct {
	db       *store.DB
	people   *identity.Directory
	engine   *apply.Engine
	inspect  func(registry.InspectRequest) (*registry.Inspection, error)
	reloaded int
	// beforeCommit runs between a plan and its commit; nil for nothing.
	beforeCommit func()
	gone         []parley.AgentName
}

// Inspect implements registry.Inspector.
func (b *bed) Inspect(_ context.Context, req registry.InspectRequest) (*registry.Inspection, error) {
	return b.inspect(req)
}

// CheckLimits, ConfiguredLimit and ReloadLimits implement apply.Limits.
func (b *bed) CheckLimits(values map[string]string) (wrong []parley.Field) {
	for key, v := range values {
		if v == "0s" {
			wrong = append(wrong, parley.Field{Path: key, Problem: "is too short"})
		}
	}
	return wrong
}
func (b *bed) ConfiguredLimit(string) string      { return "24h" }
func (b *bed) ReloadLimits(context.Context) error { b.reloaded++; return nil }

// batch is the store's, with somebody who comes in between.
type batch struct {
	*store.Batch
	bed *bed
}

// Commit implements apply.Batch.
func (b *batch) Commit(ctx context.Context) error {
	if f := b.bed.beforeCommit; f != nil {
		b.bed.beforeCommit = nil
		f()
	}
	return b.Batch.Commit(ctx)
}

func newBed(t *testing.T) *bed {
	t.Helper()
	return newBedOn(t, store.Postgres{})
}

// onBoth runs a test over both databases.
func onBoth(t *testing.T, test func(t *testing.T, b *bed)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) { test(t, newBed(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, newBedOn(t, store.Postgres{URL: pgtest.Database(t)})) })
}

func newBedOn(t *testing.T, pg store.Postgres) *bed {
	t.Helper()
	b := &bed{inspect: proven}
	var err error
	if b.db, err = store.Open(t.Context(), store.Options{Dir: t.TempDir(), Durability: store.Relaxed, Postgres: pg}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.db.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	b.people = identity.NewDirectory(b.db, registry.Homes{Store: b.db}, identity.Options{})
	reg := registry.New(registry.Options{Store: b.db, Inspector: b, Removed: func(n parley.AgentName) { b.gone = append(b.gone, n) }})
	b.engine = apply.New(apply.Options{
		Store: b.db, Begin: func() apply.Batch { return &batch{b.db.Batch(), b} }, Identity: b.people, Registry: reg, Limits: b, Environment: parley.Dev,
	})
	return b
}

// proven is an agent that answers wherever it is asked, if it is shown what it
// wants where its address says so.
func proven(req registry.InspectRequest) (*registry.Inspection, error) {
	if strings.Contains(req.URL, "broken") {
		return nil, parley.E("test.inspect", parley.AgentFailed, "", "nothing answers there", nil)
	}
	probe, use := registry.ProbeOK, 0
	if strings.Contains(req.URL, "guarded") && (req.Credential == nil || req.Credential.Secret == "") {
		probe, use = registry.ProbeUnauthorized, -1
	}
	return &registry.Inspection{
		CardURL: req.URL, Card: []byte(`{}`), Hash: strings.Repeat("ab", 32), Use: use,
		Interfaces: []registry.Interface{{URL: req.URL, Binding: "JSONRPC", Version: "1.0", Probe: probe}},
	}, nil
}

// documents reads YAML; each Credential gets the secret.
func documents(t *testing.T, yaml, secret string) []apply.Input {
	t.Helper()
	docs, problems := manifest.Decode("test.yaml", []byte(yaml))
	if len(problems) > 0 {
		t.Fatalf("%v\n%s", problems, yaml)
	}
	inputs := make([]apply.Input, len(docs))
	for i, d := range docs {
		inputs[i] = apply.Input{Document: d}
		if d.Kind == manifest.KindCredential && d.Credential.SecretRef != nil {
			inputs[i].Secret = secret
		}
	}
	return inputs
}

func doc(kind, name, spec string) string {
	return fmt.Sprintf("apiVersion: parley/v1\nkind: %s\nmetadata: {name: %s}\nspec: {%s}\n---\n", kind, name, spec)
}

// told is a plan's changes, one a line.
func told(p *apply.Plan) string {
	var b strings.Builder
	for _, c := range p.Changes {
		fmt.Fprintf(&b, "%s %s %s", c.Action, c.Kind, c.Name)
		for _, f := range c.Fields {
			fmt.Fprintf(&b, " %s:%s>%s", f.Path, f.Before, f.After)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (b *bed) must(t *testing.T, req apply.Request) *apply.Plan {
	t.Helper()
	p, err := b.engine.Apply(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (b *bed) refused(t *testing.T, req apply.Request, kind parley.Kind, words ...string) {
	t.Helper()
	before := b.state(t)
	_, err := b.engine.Apply(t.Context(), req)
	if err == nil || parley.KindOf(err) != kind {
		t.Fatalf("error %v, want of kind %s", err, kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
	if after := b.state(t); after != before {
		t.Errorf("something was changed:\n%s\nbefore:\n%s", after, before)
	}
}

// state is everything a plan could change, events included.
func (b *bed) state(t *testing.T) string {
	t.Helper()
	ctx := t.Context()
	if err := b.db.Flush(ctx); err != nil { // the feed of PostgreSQL is numbered a little later
		t.Fatal(err)
	}
	owners, err := b.db.Owners(ctx, "", 1000)
	people, err2 := b.db.Principals(ctx, "", "", 1000)
	agents, err3 := b.db.Agents(ctx, "", "", 1000)
	marks, err4 := b.db.Marks(ctx)
	limits, _, version, err5 := b.db.LimitOverrides(ctx)
	seq, err6 := b.db.LastSeq(ctx)
	for _, err := range []error{err, err2, err3, err4, err5, err6} {
		if err != nil {
			t.Fatal(err)
		}
	}
	instances, err := b.db.Instances(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	var names, links []any
	for _, p := range people {
		of, err := b.db.Names(ctx, p.Name)
		subjects, err2 := b.db.Links(ctx, p.Name, 1000)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		names, links = append(names, of), append(links, subjects)
	}
	raw, err := json.Marshal([]any{owners, people, agents, instances, names, links, marks, limits, version, seq})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

const everything = `
apiVersion: parley/v1
kind: Credential
metadata: {name: billing}
spec: {kind: bearer, secretRef: {env: TOKEN}}
---
apiVersion: parley/v1
kind: Agent
metadata: {name: billing}
spec: {url: "https://guarded.example.com/", owner: finance, allow: [default]}
---
apiVersion: parley/v1
kind: Principal
metadata: {name: clerk}
spec: {owner: finance, roles: [operator]}
---
apiVersion: parley/v1
kind: Owner
metadata: {name: finance}
---
apiVersion: parley/v1
kind: Limits
metadata: {name: default}
spec: {call_deadline: 12h}
`

func TestEverythingAtOnceAndThenNothing(t *testing.T) { onBoth(t, everythingAtOnceAndThenNothing) }

func everythingAtOnceAndThenNothing(t *testing.T, b *bed) {
	req := apply.Request{Documents: documents(t, everything, "s3cret")}
	dry := req
	dry.DryRun = true
	before := b.state(t)
	shown := b.must(t, dry)
	if after := b.state(t); after != before {
		t.Fatalf("a dry run changed something:\n%s\nbefore:\n%s", after, before)
	}
	p := b.must(t, req)
	const want = `create Owner finance
create Principal clerk owner:>finance environment:>dev roles:>operator
create Agent billing url:>https://guarded.example.com/ owner:>finance environment:>dev allow:>default
create Credential billing kind:>bearer origin:>https://guarded.example.com:443 secret:>(set)
create Limits default call_deadline:24h (configuration)>12h
`
	if told(p) != want || !p.Applied || told(shown) != want || shown.Applied {
		t.Errorf("applied %v, shown %v:\n%s\nwant\n%s", p.Applied, shown.Applied, told(p), want)
	}
	a, err := b.db.Agent(t.Context(), "billing")
	if err != nil || a.Status != registry.Active {
		t.Errorf("the agent is %v, %v: it was not looked at with its credential", a, err)
	}
	if b.reloaded != 1 {
		t.Errorf("limits were reloaded %d times", b.reloaded)
	}
	after := b.state(t)
	if again := b.must(t, req); len(again.Changes) != 0 || again.Unchanged != 5 || again.Applied || b.state(t) != after {
		t.Errorf("applied again: %+v", again)
	}
	b.eventsOnce(t)
}

// eventsOnce checks that each thing's making was told of, once.
func (b *bed) eventsOnce(t *testing.T) {
	t.Helper()
	if err := b.db.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	events, err := b.db.Events(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, e := range events {
		count[e.Type+" "+e.Subject]++
		if strings.Contains(string(e.Data), "s3cret") {
			t.Errorf("event %s holds the secret: %s", e.Type, e.Data)
		}
	}
	for _, want := range []string{
		"owner.added owners/finance", "principal.added principals/clerk", "agent.added agents/billing",
		"agent.auth_set agents/billing", "limits.changed limits/default",
	} {
		if count[want] != 1 {
			t.Errorf("%d events %q, want 1 of %v", count[want], want, count)
		}
	}
}

func TestOneWrongDocumentRefusesAll(t *testing.T) {
	b := newBed(t)
	good := doc("Owner", "finance", "")
	for name, c := range map[string]struct {
		yaml  string
		words []string
	}{
		"unknown owner":       {doc("Principal", "clerk", "owner: finanze"), []string{"/documents/1/spec/owner", `did you mean "finance"`}},
		"unknown allowed":     {doc("Agent", "a", "url: https://a.example.com, allow: [finance, nobody]"), []string{"/documents/1/spec/allow/1"}},
		"broken agent":        {doc("Agent", "a", "url: https://broken.example.com"), []string{"/documents/1", "nothing answers there"}},
		"own principal":       {doc("Principal", "local-admin", ""), []string{"/documents/1/metadata/name", "the mesh's own"}},
		"unknown role":        {doc("Principal", "clerk", "roles: [king]"), []string{"/documents/1/spec/roles/0"}},
		"credential of none":  {doc("Credential", "a", "kind: bearer, secretRef: {env: T}"), []string{"/documents/1/metadata/name", "no agent"}},
		"no user":             {doc("Agent", "a", "url: https://a.example.com") + doc("Credential", "a", "kind: basic, secretRef: {env: T}"), []string{"user"}},
		"limit out of range":  {doc("Limits", "default", "call_deadline: 0s"), []string{"/documents/1/spec/call_deadline", "too short"}},
		"declared twice":      {good, []string{"declared twice"}},
		"two wrong documents": {doc("Principal", "a", "owner: x") + doc("Principal", "b", "owner: y"), []string{"/documents/1/spec/owner", "/documents/2/spec/owner"}},
	} {
		t.Run(name, func(t *testing.T) {
			b.refused(t, apply.Request{Documents: documents(t, good+c.yaml, "s")}, parley.Invalid, c.words...)
		})
	}
}

func TestAKnownAgentThatFailsItsLookIsChangedAllTheSame(t *testing.T) {
	b := newBed(t)
	agent := doc("Agent", "a", "url: https://a.example.com")
	b.must(t, apply.Request{Documents: documents(t, agent, "")})
	b.inspect = func(registry.InspectRequest) (*registry.Inspection, error) {
		return nil, parley.E("test.inspect", parley.AgentFailed, "", "it is away", nil)
	}
	p := b.must(t, apply.Request{Documents: documents(t, agent+doc("Credential", "a", "kind: bearer, secretRef: {env: T}"), "s")})
	a, err := b.db.Agent(t.Context(), "a")
	if err != nil || a.CheckErr != "it is away" || !p.Applied {
		t.Errorf("agent %+v, %v, applied %v", a, err, p.Applied)
	}
	b.refused(t, apply.Request{Documents: documents(t, doc("Agent", "a", "url: https://b.example.com"), "")}, parley.Invalid, "it is away")
}

func TestAnAgentMoves(t *testing.T) {
	b := newBed(t)
	b.must(t, apply.Request{Documents: documents(t, doc("Agent", "a", "url: https://a.example.com"), "")})
	old, err := b.db.Agent(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	p := b.must(t, apply.Request{Documents: documents(t, doc("Agent", "a", "url: https://b.example.com"), "")})
	if want := "update Agent a url:https://a.example.com>https://b.example.com\n"; told(p) != want {
		t.Errorf("plan %q, want %q", told(p), want)
	}
	a, err := b.db.Agent(t.Context(), "a")
	if err != nil || a.Status != registry.Active || a.Interfaces[0].URL != "https://b.example.com" || !a.CreatedAt.Equal(old.CreatedAt) {
		t.Errorf("agent %+v, %v", a, err)
	}
}

func TestASecretThatChangesIsStoredAnew(t *testing.T) {
	b := newBed(t)
	yaml := doc("Agent", "a", "url: https://guarded.example.com") + doc("Credential", "a", "kind: bearer, secretRef: {env: T}")
	b.must(t, apply.Request{Documents: documents(t, yaml, "one")})
	if p := b.must(t, apply.Request{Documents: documents(t, yaml, "one")}); len(p.Changes) != 0 {
		t.Errorf("the same secret: %s", told(p))
	}
	p := b.must(t, apply.Request{Documents: documents(t, yaml, "two")})
	if want := "update Credential a secret:(set before)>(set anew)\n"; told(p) != want {
		t.Errorf("plan %q, want %q", told(p), want)
	}
	c, err := b.db.Credential(t.Context(), "a")
	if err != nil || c.Secret != "two" {
		t.Errorf("the secret was not stored: %v", err)
	}
	// It is still the set's own: pruning takes it.
	p = b.must(t, apply.Request{Documents: documents(t, doc("Agent", "a", "url: https://guarded.example.com"), ""), Prune: true})
	if want := "remove Credential a\n"; told(p) != want {
		t.Errorf("plan %q, want %q", told(p), want)
	}
}

func TestWhoeverComesInBetweenIsNotOverwritten(t *testing.T) {
	onBoth(t, whoeverComesInBetweenIsNotOverwritten)
}

func whoeverComesInBetweenIsNotOverwritten(t *testing.T, b *bed) {
	b.must(t, apply.Request{Documents: documents(t, doc("Owner", "finance", "description: one"), "")})
	b.beforeCommit = func() {
		if _, err := b.people.UpdateOwner(t.Context(), "finance", 0, "by hand"); err != nil {
			t.Error(err)
		}
	}
	p := b.must(t, apply.Request{Documents: documents(t, doc("Owner", "finance", "description: two")+doc("Owner", "other", ""), "")})
	if want := "update Owner finance description:by hand>two\ncreate Owner other\n"; told(p) != want {
		t.Errorf("plan %q, want %q: it was not made anew", told(p), want)
	}
	// A credential has no version, and is guarded all the same.
	agent := doc("Agent", "a", "url: https://a.example.com")
	b.must(t, apply.Request{Set: "s", Documents: documents(t, agent, "")})
	b.beforeCommit = func() {
		a := &registry.Credential{Agent: "a", Kind: registry.Bearer, Origin: "https://a.example.com:443", Secret: "x", Owner: "default", CreatedAt: time.Now()}
		if err := b.db.SaveCredential(t.Context(), a); err != nil {
			t.Error(err)
		}
	}
	p = b.must(t, apply.Request{Set: "s", Documents: documents(t, agent+doc("Credential", "a", "kind: bearer, secretRef: {env: T}"), "y")})
	if p.Changes[0].Action != apply.Update {
		t.Errorf("plan %s: it did not see the other credential", told(p))
	}
}

func TestPruneTakesOnlyWhatTheSetHasMade(t *testing.T) { onBoth(t, pruneTakesOnlyWhatTheSetHasMade) }

func pruneTakesOnlyWhatTheSetHasMade(t *testing.T, b *bed) {
	ctx := t.Context()
	if _, err := b.people.CreateOwner(ctx, "byhand", ""); err != nil {
		t.Fatal(err)
	}
	b.must(t, apply.Request{Documents: documents(t, everything+"---\n"+doc("Owner", "byhand", "description: declared")+doc("Owner", "again", ""), "s")})
	b.must(t, apply.Request{Set: "other", Documents: documents(t, doc("Owner", "others", ""), "")})
	// One is removed by hand, and another of its name made.
	if err := b.people.DeleteOwner(ctx, "again", 0); err != nil {
		t.Fatal(err)
	}
	if _, err := b.people.CreateOwner(ctx, "again", "by hand"); err != nil {
		t.Fatal(err)
	}
	// The agent has a calling side, which goes with it.
	if _, _, err := b.people.CreateKey(ctx, identity.KeyRequest{Agent: "billing"}); err != nil {
		t.Fatal(err)
	}
	kept := b.must(t, apply.Request{Documents: nil})
	if len(kept.Changes) != 0 || len(kept.Orphans) != 5 {
		t.Errorf("without prune: %+v", kept)
	}
	p := b.must(t, apply.Request{Prune: true})
	const want = "remove Limits default\nremove Credential billing\nremove Agent billing\nremove Principal clerk\nremove Owner finance\n"
	if told(p) != want {
		t.Errorf("plan\n%swant\n%s", told(p), want)
	}
	for _, name := range []parley.OwnerName{"byhand", "again", "others", parley.DefaultOwner} {
		if _, err := b.db.Owner(ctx, name); err != nil {
			t.Errorf("owner %s: %v", name, err)
		}
	}
	if !slices.Contains(b.gone, "billing") {
		t.Error("the mesh was not told that the agent is gone")
	}
	marks, err := b.db.Marks(ctx)
	if err != nil || len(marks) != 1 || marks[0].Name != "others" {
		t.Errorf("marks left: %v, %v", marks, err)
	}
}

func TestAnOwnerThatStillAnswersForSomethingIsNotPruned(t *testing.T) {
	b := newBed(t)
	b.must(t, apply.Request{Documents: documents(t, doc("Owner", "finance", ""), "")})
	if _, err := b.people.CreatePrincipal(t.Context(), identity.NewPrincipal{Name: "byhand", Owner: "finance"}); err != nil {
		t.Fatal(err)
	}
	b.refused(t, apply.Request{Prune: true}, parley.Invalid, "finance", "principal byhand")
}

func TestNobodyLosesTheirOwnAccess(t *testing.T) {
	b := newBed(t)
	b.must(t, apply.Request{Documents: documents(t, doc("Principal", "boss", "roles: [admin]"), "")})
	p, err := b.db.Principal(t.Context(), "boss")
	if err != nil {
		t.Fatal(err)
	}
	as := identity.WithCaller(t.Context(), &identity.Caller{Principal: *p})
	plan, err := b.engine.Apply(as, apply.Request{Prune: true})
	if err != nil || len(plan.Changes) != 0 || len(plan.Orphans) != 1 {
		t.Errorf("pruned oneself: %+v, %v", plan, err)
	}
	if _, err := b.engine.Apply(as, apply.Request{Documents: documents(t, doc("Principal", "boss", ""), "")}); parley.KindOf(err) != parley.Invalid || err == nil {
		t.Errorf("took the role from oneself: %v", err)
	}
}

func TestOwnerAndEnvironmentNeverChange(t *testing.T) {
	b := newBed(t)
	b.must(t, apply.Request{Documents: documents(t, doc("Principal", "p", "")+doc("Agent", "a", "url: https://a.example.com"), "")})
	b.refused(t, apply.Request{Documents: documents(t, doc("Owner", "o", "")+doc("Principal", "p", "owner: o")+doc("Agent", "a", "url: https://a.example.com, environment: prod"), "")},
		parley.Invalid, "/documents/1/spec/owner", "/documents/2/spec/environment")
}

// TestPlansConverge applies random sets of documents one after another. After
// each the mesh is exactly as declared, and the plan that follows is empty.
func TestPlansConverge(t *testing.T) { onBoth(t, plansConverge) }

func plansConverge(t *testing.T, b *bed) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for round := range 40 {
		yaml := randomDocuments(r)
		req := apply.Request{Documents: documents(t, yaml, fmt.Sprint("secret-", r.IntN(2))), Prune: true}
		dry := req
		dry.DryRun = true
		shown, err := b.engine.Apply(t.Context(), dry)
		if err != nil {
			t.Fatalf("round %d: %v\n%s", round, err, yaml)
		}
		p := b.must(t, req)
		if told(p) != told(shown) {
			t.Fatalf("round %d: applied\n%sshown\n%s", round, told(p), told(shown))
		}
		if err := inOrder(p); err != nil {
			t.Fatalf("round %d: %v\n%s", round, err, told(p))
		}
		b.holds(t, req.Documents)
		rest := slices.Clone(req.Documents)
		r.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
		if again := b.must(t, apply.Request{Documents: rest, Prune: true}); len(again.Changes) != 0 {
			t.Fatalf("round %d: the plan after it is not empty:\n%s%s", round, told(again), yaml)
		}
	}
}

// randomDocuments declares things of a few names, in any order. Owners and
// environments hang on the name, since they never change.
func randomDocuments(r *rand.Rand) string {
	var docs []string
	add := func(d string) { docs = append(docs, d) }
	for i := range 3 {
		if r.IntN(2) == 0 {
			continue // an owner, with what it answers for
		}
		owner := fmt.Sprint("o", i)
		add(doc("Owner", owner, fmt.Sprint("description: d", r.IntN(2))))
		for j := range 2 {
			if r.IntN(2) == 0 {
				roles := []string{"", "operator", "operator, admin"}[r.IntN(3)]
				add(doc("Principal", fmt.Sprintf("p%d-%d", i, j), fmt.Sprintf("owner: %s, roles: [%s]", owner, roles)))
			}
			if r.IntN(2) == 0 {
				continue
			}
			name := fmt.Sprintf("a%d-%d", i, j)
			allow := []string{"", "default", owner}[r.IntN(3)]
			add(doc("Agent", name, fmt.Sprintf("url: 'https://guarded%d.example.com/', owner: %s, allow: [%s]", r.IntN(2), owner, allow)))
			if r.IntN(2) == 0 {
				add(doc("Credential", name, "kind: bearer, secretRef: {env: T}"))
			}
		}
	}
	if r.IntN(2) == 0 {
		add(doc("Limits", "default", fmt.Sprintf("call_deadline: %dh", 1+r.IntN(2))))
	}
	r.Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] })
	return strings.Join(docs, "")
}

// inOrder checks that things are made after what they need and removed before
// it.
func inOrder(p *apply.Plan) error {
	last, removing := -1, false
	for _, c := range p.Changes {
		rank := slices.Index(manifest.Kinds, c.Kind)
		if c.Kind == manifest.KindCredential {
			rank = slices.Index(manifest.Kinds, manifest.KindAgent) // both of one agent stand together
		}
		if c.Action == apply.Remove {
			if !removing {
				removing, last = true, len(manifest.Kinds)
			}
			rank = slices.Index(manifest.Kinds, c.Kind)
			if rank > last {
				return fmt.Errorf("%s %s is removed too late", c.Kind, c.Name)
			}
		} else if removing || rank < last {
			return fmt.Errorf("%s %s comes too late", c.Kind, c.Name)
		}
		last = rank
	}
	return nil
}

// holds compares the mesh with documents: everything declared is there, and
// nothing else but what every mesh has.
func (b *bed) holds(t *testing.T, docs []apply.Input) {
	t.Helper()
	ctx := t.Context()
	want := map[string]bool{"Owner/default": true}
	for _, d := range docs {
		want[d.ID()] = true
	}
	got := map[string]bool{}
	owners, err := b.db.Owners(ctx, "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range owners {
		got["Owner/"+string(o.Name)] = true
	}
	people, err := b.db.Principals(ctx, "", "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range people {
		got["Principal/"+string(p.Name)] = true
	}
	agents, err := b.db.Agents(ctx, "", "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range agents {
		got["Agent/"+string(a.Name)] = true
		if _, err := b.db.Credential(ctx, a.Name); err == nil {
			got["Credential/"+string(a.Name)] = true
		}
	}
	if _, _, version, err := b.db.LimitOverrides(ctx); err != nil || version > 0 {
		got["Limits/default"] = true
	}
	if !maps.Equal(got, want) {
		t.Fatalf("the mesh has %v, declared is %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}
