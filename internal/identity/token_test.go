package identity_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/identity/identitytest"
	"github.com/parley-mesh/parley/internal/parley"
)

const login = "https://login.example"

// issuers verifies the tokens that a test has made, and counts.
type issuers struct {
	mu       sync.Mutex
	known    map[string]*identity.Assertion
	err      error
	verified int
}

func (i *issuers) Verify(_ context.Context, token string) (*identity.Assertion, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.verified++
	if i.err != nil {
		return nil, i.err
	}
	if a, ok := i.known[token]; ok {
		copied := *a
		return &copied, nil
	}
	return nil, &identity.Refusal{Reason: identity.ReasonSignature}
}

// tokenMesh is a directory that takes tokens, and its clock.
type tokenMesh struct {
	*mesh
	issuers *issuers
	now     time.Time
	made    int
}

func newTokenMesh(t *testing.T) *tokenMesh {
	t.Helper()
	m := &tokenMesh{issuers: &issuers{known: map[string]*identity.Assertion{}}, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	store := &identitytest.Store{}
	dir := identity.NewDirectory(store, homes{"planner": {"default", parley.Dev}}, identity.Options{Tokens: m.issuers, Now: func() time.Time { return m.now }})
	m.mesh = &mesh{Directory: dir, store: store}
	if err := dir.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.CreatePrincipal(t.Context(), identity.NewPrincipal{Name: "ann", Roles: []parley.Role{parley.RoleAdmin}}); err != nil {
		t.Fatal(err)
	}
	return m
}

// token makes one that proves a.
func (m *tokenMesh) token(a identity.Assertion) string {
	m.made++
	text := fmt.Sprintf("eyJ%d.eyJ.c2ln", m.made)
	if a.Issuer == "" {
		a.Issuer = login
	}
	if a.ExpiresAt.IsZero() {
		a.ExpiresAt = m.now.Add(time.Hour)
	}
	m.issuers.known[text] = &a
	return text
}

func stranger(subject, name string) identity.Assertion {
	return identity.Assertion{Subject: subject, Name: name, Create: true, Owner: "default", Environment: parley.Dev}
}

func (m *tokenMesh) identify(t *testing.T, token string) *identity.Caller {
	t.Helper()
	c, err := m.Identify(t.Context(), bearer(token))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestNoClaimLeadsToAnExistingPrincipal: names that are taken, are the mesh's
// own or an agent's get a mark, and the same subject keeps its principal
// whatever its name becomes.
func TestNoClaimLeadsToAnExistingPrincipal(t *testing.T) {
	m := newTokenMesh(t)
	for _, tc := range []struct{ subject, name, want string }{
		{"1", "ann", "ann-"},
		{"2", "ANN", "ann-"},
		{"3", "ann@elsewhere.example", "ann-"},
		{"4", "admin", "admin-"},
		{"5", "local-admin", "local-admin-"},
		{"6", "Anonymous", "anonymous-"},
		{"7", "planner", "planner-"},
		{"8", "", "subject-"},
		{"9", "日本", "subject-"},
		{"10", "Grace Hopper", "grace-hopper"},
		{"11", "grace.hopper", "grace-hopper-"},
		{"12", "42-services", "p-42-services"},
		{"13", strings.Repeat("x", 200), strings.Repeat("x", 50)},
		{"14", "--a--", "a"},
		{"15", "@", "subject-"},
	} {
		c := m.identify(t, m.token(stranger(tc.subject, tc.name)))
		got := string(c.Name)
		if got != tc.want && (!strings.HasSuffix(tc.want, "-") || !strings.HasPrefix(got, tc.want) || len(got) != len(tc.want)+10) {
			t.Errorf("%q is %s, want %s", tc.name, got, tc.want)
		}
		if err := parley.CheckName("principal", got); err != nil {
			t.Errorf("%q: %v", tc.name, err)
		}
		if len(c.Roles) != 0 || c.Issuer != login || c.KeyID != "" {
			t.Errorf("%q: %+v", tc.name, c)
		}
		again := m.identify(t, m.token(stranger(tc.subject, "renamed")))
		if again.Name != c.Name {
			t.Errorf("subject %s is %s under another name, and was %s", tc.subject, again.Name, c.Name)
		}
	}
	other := stranger("1", "ann")
	other.Issuer = "https://other.example"
	if a, b := m.identify(t, m.token(stranger("1", "ann"))).Name, m.identify(t, m.token(other)).Name; a == b {
		t.Errorf("the same subject of two issuers is %s twice", a)
	}
}

func TestFirstCallIsToldOnce(t *testing.T) {
	m := newTokenMesh(t)
	token := m.token(stranger("s-1", "grace"))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if c, err := m.Identify(context.Background(), bearer(token)); err != nil || c.Name != "grace" {
				t.Errorf("%+v, %v", c, err)
			}
		})
	}
	wg.Wait()
	var types []string
	for _, e := range m.store.Events() {
		if e.Subject == "principals/grace" {
			types = append(types, e.Type)
		}
	}
	if diff := cmp.Diff([]string{"principal.added", "principal.linked"}, types); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	l, err := m.Links(t.Context(), "grace", 10)
	if err != nil || len(l) != 1 || !l[0].Made || l[0].Subject != "s-1" || l[0].Issuer != login {
		t.Errorf("links %+v, %v", l, err)
	}
}

// TestRolesOfATokenStayInIt: they add to the principal's own, and are gone with
// the token.
func TestRolesOfATokenStayInIt(t *testing.T) {
	m := newTokenMesh(t)
	a := stranger("s-1", "grace")
	a.Roles = []parley.Role{parley.RoleOperator, parley.RoleAdmin}
	if got := m.identify(t, m.token(a)).Roles; !slices.Equal(got, a.Roles) {
		t.Errorf("roles %v, want those of the token", got)
	}
	if p, err := m.Principal(t.Context(), "grace"); err != nil || len(p.Roles) != 0 {
		t.Errorf("the principal has %+v, %v, want no role", p, err)
	}
	if got := m.identify(t, m.token(stranger("s-1", "grace"))).Roles; len(got) != 0 {
		t.Errorf("the next token gives %v, want none", got)
	}
	if _, err := m.UpdatePrincipal(t.Context(), "grace", 0, identity.PrincipalChange{Roles: &[]parley.Role{parley.RoleOperator}}); err != nil {
		t.Fatal(err)
	}
	if got := m.identify(t, m.token(a)).Roles; !slices.Equal(got, []parley.Role{parley.RoleOperator, parley.RoleAdmin}) {
		t.Errorf("roles %v, want each once", got)
	}
}

// TestHomelessTokens say nothing of owner or environment: that is enough for who
// was linked by hand, and for nobody else.
func TestHomelessTokens(t *testing.T) {
	m := newTokenMesh(t)
	homeless := func(subject string) string {
		a := stranger(subject, "grace")
		a.Owner, a.Environment, a.Homeless = "", "", &identity.Refusal{Reason: identity.ReasonClaims}
		return m.token(a)
	}
	_, err := m.Identify(t.Context(), bearer(homeless("s-1")))
	wantRefusal(t, err, parley.Unauthorized, identity.ReasonClaims)
	m.identify(t, m.token(stranger("s-1", "grace")))
	_, err = m.Identify(t.Context(), bearer(homeless("s-1")))
	wantRefusal(t, err, parley.Unauthorized, identity.ReasonClaims)
	if _, err := m.LinkPrincipal(t.Context(), "ann", login, "s-2"); err != nil {
		t.Fatal(err)
	}
	if c := m.identify(t, homeless("s-2")); c.Name != "ann" {
		t.Errorf("linked by hand: %+v", c)
	}
}

// TestTwoOfOneName at once: both are let in, under two names.
func TestTwoOfOneName(t *testing.T) {
	m := newTokenMesh(t)
	var tokens []string
	for n := range 8 {
		tokens = append(tokens, m.token(stranger(fmt.Sprintf("s-%d", n), "grace")))
	}
	names := make([]parley.PrincipalName, len(tokens))
	var wg sync.WaitGroup
	for n, token := range tokens {
		wg.Go(func() {
			c, err := m.Identify(context.Background(), bearer(token))
			if err != nil {
				t.Error(err)
				return
			}
			names[n] = c.Name
		})
	}
	wg.Wait()
	slices.Sort(names)
	if len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("names %v: one was given twice", names)
	}
}

func TestLinkedSubjects(t *testing.T) {
	m := newTokenMesh(t)
	ctx := t.Context()
	a := identity.Assertion{Subject: "s-1", Name: "ann", Owner: "nobody", Environment: parley.Prod}
	token := m.token(a)
	_, err := m.Identify(ctx, bearer(token))
	wantRefusal(t, err, parley.Unauthorized, identity.ReasonUnlinked)
	if msg := parley.PublicMessage(err); !strings.Contains(msg, "parley principal link NAME --issuer "+login+" --subject s-1") {
		t.Errorf("the message does not say what to do: %s", msg)
	}
	if _, err := m.LinkPrincipal(ctx, "ann", login, "s-1"); err != nil {
		t.Fatal(err)
	}
	if c := m.identify(t, token); c.Name != "ann" || c.Owner != "default" || !c.Has(parley.RoleAdmin) {
		t.Errorf("linked: %+v; owner and environment are the principal's, not the token's", c)
	}
	if _, err := m.CreatePrincipal(ctx, identity.NewPrincipal{Name: "bob"}); err != nil {
		t.Fatal(err)
	}
	_, err = m.LinkPrincipal(ctx, "bob", login, "s-1")
	if parley.KindOf(err) != parley.Conflict || err == nil {
		t.Errorf("linked twice: %v", err)
	}
	for _, wrong := range [][2]string{{"login", "s"}, {login, ""}, {login, "a\nb"}, {login, strings.Repeat("s", 513)}, {"ftp://x", "s"}} {
		if _, err := m.LinkPrincipal(ctx, "bob", wrong[0], wrong[1]); err == nil || parley.KindOf(err) != parley.Invalid {
			t.Errorf("link %q: %v", wrong, err)
		}
	}
	if err := m.UnlinkPrincipal(ctx, "bob", login, "s-1"); parley.KindOf(err) != parley.NotFound {
		t.Errorf("another's link was taken away: %v", err)
	}
	if err := m.UnlinkPrincipal(ctx, "ann", login, "s-1"); err != nil {
		t.Fatal(err)
	}
	_, err = m.Identify(ctx, bearer(token))
	wantRefusal(t, err, parley.Unauthorized, identity.ReasonUnlinked)
}

// TestWhoMovesIsRefused: a principal that was made of claims is not carried over
// to another owner or environment by them.
func TestWhoMovesIsRefused(t *testing.T) {
	m := newTokenMesh(t)
	ctx := t.Context()
	m.identify(t, m.token(stranger("s-1", "grace")))
	moved := stranger("s-1", "grace")
	moved.Owner = "finance"
	_, err := m.Identify(ctx, bearer(m.token(moved)))
	wantRefusal(t, err, parley.Unauthorized, identity.ReasonMoved)
	promoted := stranger("s-1", "grace")
	promoted.Environment = parley.Prod
	_, err = m.Identify(ctx, bearer(m.token(promoted)))
	wantRefusal(t, err, parley.Unauthorized, identity.ReasonMoved)
	if err := m.DeletePrincipal(ctx, "grace", 0); err != nil {
		t.Fatal(err)
	}
	_, err = m.Identify(ctx, bearer(m.token(moved)))
	wantRefusal(t, err, parley.Unauthorized, identity.ReasonOwner)
	if _, err := m.CreateOwner(ctx, "finance", ""); err != nil {
		t.Fatal(err)
	}
	if c := m.identify(t, m.token(moved)); c.Owner != "finance" {
		t.Errorf("made anew: %+v", c)
	}
}

// TestVerifiedTokensAreBelieved: until they expire, but never for longer than
// five minutes, and not after a change of their principal.
func TestVerifiedTokensAreBelieved(t *testing.T) {
	m := newTokenMesh(t)
	a := stranger("s-1", "grace")
	a.ExpiresAt = m.now.Add(10 * time.Minute)
	token := m.token(a)
	verified := func(what string, want int) {
		t.Helper()
		m.identify(t, token)
		if m.issuers.verified != want {
			t.Errorf("%s: verified %d times, want %d", what, m.issuers.verified, want)
		}
	}
	verified("at first", 1)
	verified("at once again", 1)
	m.now = m.now.Add(5*time.Minute - time.Second)
	verified("after five minutes less a second", 1)
	m.now = m.now.Add(time.Second)
	verified("after five minutes", 2)
	m.Invalidate()
	verified("after a change", 3)
	m.now = m.now.Add(4 * time.Minute)
	verified("nine minutes after", 3)
	m.now = m.now.Add(time.Minute)
	m.issuers.known = nil // expired: what verifies would say so
	if _, err := m.Identify(t.Context(), bearer(token)); err == nil {
		t.Error("a token is believed after its end")
	}
}

// TestFreezeCountsForTokens, remembered ones included.
func TestFreezeCountsForTokens(t *testing.T) {
	m := newTokenMesh(t)
	token := m.token(stranger("s-1", "grace"))
	m.identify(t, token)
	if _, err := m.FreezePrincipal(t.Context(), "grace", "left"); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{token, token, m.token(stranger("s-1", "grace"))} {
		if _, err := m.Identify(t.Context(), bearer(text)); parley.KindOf(err) != parley.Frozen || err == nil {
			t.Errorf("a frozen principal's token: %v", err)
		}
	}
	if _, err := m.UnfreezePrincipal(t.Context(), "grace"); err != nil {
		t.Fatal(err)
	}
	m.identify(t, token)
}

// TestBadTokensAreLimited as bad keys are, and good ones from the same address go
// on while they are remembered.
func TestBadTokensAreLimited(t *testing.T) {
	m := newTokenMesh(t)
	good := m.token(stranger("s-1", "grace"))
	m.identify(t, good)
	var last error
	for i := range 25 {
		_, last = m.Identify(t.Context(), bearer(fmt.Sprintf("eyJ.bad.%d", i)))
		if last == nil {
			t.Fatal("a bad token identifies somebody")
		}
	}
	wantRefusal(t, last, parley.Exhausted, identity.ReasonLimited)
	if verified := m.issuers.verified; verified > 22 {
		t.Errorf("%d tokens were looked at: the limit is 20", verified)
	}
	m.identify(t, good)
	if f := m.Failures(); f.Reasons[identity.ReasonSignature] < 20 {
		t.Errorf("failures %+v", f)
	}
}

func TestIssuerAwayIsNobodysFault(t *testing.T) {
	m := newTokenMesh(t)
	m.issuers.err = parley.E("test", parley.Unavailable, "", "the issuer is away", errors.New("no route"))
	for range 30 {
		if _, err := m.Identify(t.Context(), bearer("eyJ.a.b")); parley.KindOf(err) != parley.Unavailable {
			t.Fatalf("%v, want unavailable", err)
		}
	}
}

// TestTokensStandInAuthorization alone, and without an issuer there are none.
func TestTokensStandInAuthorization(t *testing.T) {
	m := newTokenMesh(t)
	token := m.token(stranger("s-1", "grace"))
	_, err := m.Identify(t.Context(), identity.Credential{XAPIKey: token})
	wantRefusal(t, err, parley.Unauthorized, identity.ReasonMalformed)
	_, err = m.Identify(t.Context(), identity.Credential{Authorization: "Bearer " + token, XAPIKey: "another"})
	wantRefusal(t, err, parley.Unauthorized, identity.ReasonMalformed)
	none := newMesh(t, identity.Options{})
	_, err = none.Identify(t.Context(), bearer(token))
	wantRefusal(t, err, parley.Unauthorized, identity.ReasonMalformed)
}

func TestChallengesSayWhatIsWrong(t *testing.T) {
	m := newTokenMesh(t)
	_, err := m.Identify(t.Context(), bearer("eyJ.a.b"))
	want := `Bearer realm="parley", error="invalid_token", error_description="the token is not signed with a key of its issuer: get a new one", resource_metadata="https://mesh.example/m"`
	if got := identity.Challenge(err, "https://mesh.example/m"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	m.issuers.err = &identity.Refusal{Reason: identity.ReasonScope, Scope: "call mesh", Detail: "a \"quoted\\ \x01 detail é"}
	_, err = m.Identify(t.Context(), bearer("eyJ.a.b"))
	if got := identity.Challenge(err, ""); got != `Bearer realm="parley", error="insufficient_scope", scope="call mesh"` || parley.KindOf(err) != parley.Denied {
		t.Errorf("a missing scope: %s, %v", got, err)
	}
	m.issuers.err = &identity.Refusal{Reason: identity.ReasonClaims, Detail: "a \"quoted\\ \x01 detail é"}
	_, err = m.Identify(t.Context(), bearer("eyJ.a.b"))
	if got := identity.Challenge(err, ""); !strings.Contains(got, `error_description="a 'quoted' ' detail '"`) {
		t.Errorf("a detail that no header may carry: %s", got)
	}
}
