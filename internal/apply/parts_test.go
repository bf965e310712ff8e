package apply_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/apply"
	"github.com/parley-mesh/parley/internal/certtest"
	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/manifest"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// pair is a client certificate as a Credential's references give it.
func pair(t *testing.T) *registry.ClientCertificate {
	t.Helper()
	cert, key := certtest.WritePair(t, t.TempDir(), "client", certtest.NewAuthority(t, "ca").Client(t, certtest.DNS("mesh.example.com")))
	read := func(path string) string {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	return &registry.ClientCertificate{Chain: read(cert), Key: read(key)}
}

// withPair gives the certificate to every Credential that declares one.
func withPair(docs []apply.Input, c *registry.ClientCertificate) []apply.Input {
	for i, d := range docs {
		if d.Credential != nil && d.Credential.Certificate != nil {
			docs[i].Certificate = c
		}
	}
	return docs
}

const (
	guarded = "url: https://guarded.example.com"
	ref     = "secretRef: {env: T}"
	pem     = "certificate: {chainRef: {file: c}, keyRef: {file: k}}"
)

func TestOAuth2AndClientCertificates(t *testing.T) { onBoth(t, oauth2AndClientCertificates) }

func oauth2AndClientCertificates(t *testing.T, b *bed) {
	cert := pair(t)
	yaml := doc("Agent", "a", guarded) + doc("Credential", "a",
		"kind: oauth2, oauth2: {tokenUrl: 'https://login.example.com/token', clientId: mesh, scopes: [read, write], audience: a}, "+pem+", "+ref)
	req := apply.Request{Documents: withPair(documents(t, yaml, "s3cret"), cert), Prune: true}
	p := b.must(t, req)
	for _, want := range []string{
		"oauth2.tokenUrl:>https://login.example.com/token", "oauth2.clientId:>mesh", "oauth2.scopes:>read write",
		"oauth2.audience:>a", "oauth2.authStyle:>basic", "secret:>(set)", "certificate.key:>(set)", "fingerprint",
	} {
		if !strings.Contains(told(p), want) {
			t.Errorf("the plan does not say %q:\n%s", want, told(p))
		}
	}
	c, err := b.db.Credential(t.Context(), "a")
	if err != nil || c.Kind != registry.OAuth2 || c.Name != "mesh" || c.Token == nil || c.Token.URL != "https://login.example.com/token" ||
		c.Secret != "s3cret" || c.Certificate == nil || c.Certificate.Key != cert.Key {
		t.Fatalf("stored %v, %v", c, err)
	}
	if again := b.must(t, req); len(again.Changes) != 0 {
		t.Errorf("applied again:\n%s", told(again))
	}
	// The style that is meant where none is written is no difference.
	styled := withPair(documents(t, strings.Replace(yaml, "audience: a", "audience: a, authStyle: basic", 1), "s3cret"), cert)
	if p := b.must(t, apply.Request{Documents: styled}); len(p.Changes) != 0 {
		t.Errorf("the same style:\n%s", told(p))
	}
	// Another certificate, then none: what the set has given it may take.
	other := pair(t)
	p = b.must(t, apply.Request{Documents: withPair(documents(t, yaml, "s3cret"), other)})
	if text := told(p); !strings.Contains(text, "certificate.key:(set before)>(set anew)") || strings.Contains(text, "secret:") || strings.Contains(text, "PRIVATE") {
		t.Errorf("another certificate:\n%s", text)
	}
	p = b.must(t, apply.Request{Documents: documents(t, doc("Agent", "a", guarded)+doc("Credential", "a", "kind: bearer, "+ref), "s3cret")})
	if text := told(p); !strings.Contains(text, "kind:oauth2>bearer") || !strings.Contains(text, "certificate.key:(set before)>\n") {
		t.Errorf("without it:\n%s", text)
	}
	if c, err := b.db.Credential(t.Context(), "a"); err != nil || c.Certificate != nil || c.Token != nil {
		t.Errorf("stored %v, %v", c, err)
	}
}

func TestACertificateMadeByHandIsNotLost(t *testing.T) {
	b := newBed(t)
	agent := doc("Agent", "a", guarded)
	bearer := doc("Credential", "a", "kind: bearer, "+ref)
	b.must(t, apply.Request{Documents: documents(t, agent+bearer, "one")})
	byHand := &registry.Credential{
		Agent: "a", Kind: registry.Bearer, Origin: "https://guarded.example.com:443", Secret: "one", Owner: "default",
		Certificate: pair(t), CreatedAt: time.Now().Add(time.Second),
	}
	if err := b.db.SaveCredential(t.Context(), byHand); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"one", "two"} { // whether something else differs or not
		b.refused(t, apply.Request{Documents: documents(t, agent+bearer, secret)}, parley.Invalid, "/documents/1/spec", "would be lost", "parley agent auth a --remove")
	}
	declared := withPair(documents(t, agent+doc("Credential", "a", "kind: bearer, "+pem+", "+ref), "one"), byHand.Certificate)
	if p := b.must(t, apply.Request{Documents: declared}); len(p.Changes) != 0 {
		t.Errorf("declared as it is:\n%s", told(p))
	}
}

func TestReferencesThatDoNotComeAreRefused(t *testing.T) {
	b := newBed(t)
	yaml := doc("Agent", "a", guarded) + doc("Credential", "a", "kind: bearer, "+pem+", "+ref)
	b.refused(t, apply.Request{Documents: documents(t, yaml, "s")}, parley.Invalid, "/documents/1/spec/certificate")
	wrong := pair(t)
	wrong.Key = pair(t).Key
	b.refused(t, apply.Request{Documents: withPair(documents(t, yaml, "s"), wrong)}, parley.Invalid, "/documents/1/spec/certificate/keyRef")
	undeclared := documents(t, doc("Agent", "a", guarded)+doc("Credential", "a", "kind: bearer, "+ref), "s")
	undeclared[1].Certificate = wrong
	b.refused(t, apply.Request{Documents: undeclared}, parley.Invalid, "does not declare")
	token := doc("Agent", "a", guarded) + doc("Credential", "a", "kind: oauth2, oauth2: {tokenUrl: nowhere, clientId: c}, "+ref)
	b.refused(t, apply.Request{Documents: documents(t, token, "s")}, parley.Invalid, "/documents/1/spec/oauth2/tokenUrl")
}

func TestInstancesComeAndGo(t *testing.T) { onBoth(t, instancesComeAndGo) }

func instancesComeAndGo(t *testing.T, b *bed) {
	two := doc("Agent", "a", guarded+", instances: [{id: b, url: 'https://b.example.com'}, {id: c, url: 'https://guarded-c.example.com', credential: true}]") +
		doc("Credential", "a", "kind: bearer, "+ref)
	req := apply.Request{Documents: documents(t, two, "s"), Prune: true}
	p := b.must(t, req)
	const want = "create Instance a/b url:>https://b.example.com\ncreate Instance a/c url:>https://guarded-c.example.com credential:>true\n"
	if text := told(p); !strings.HasSuffix(text, want) {
		t.Errorf("plan\n%swant at its end\n%s", text, want)
	}
	after := b.state(t)
	if again := b.must(t, req); len(again.Changes) != 0 || b.state(t) != after {
		t.Errorf("applied again:\n%s", told(again))
	}
	confirmed := strings.Replace(two, "https://b.example.com'", "https://b.example.com', credential: true", 1)
	if p := b.must(t, apply.Request{Documents: documents(t, confirmed, "s")}); told(p) != "update Instance a/b credential:false>true\n" {
		t.Errorf("plan %q", told(p))
	}
	b.refused(t, apply.Request{Documents: documents(t, strings.Replace(two, "https://b.", "https://z.", 1), "s")}, parley.Invalid, "/documents/0/spec/instances/0/url", "cannot move")
	// One made by hand stays; one of the set is named, then drained.
	a, err := b.db.Agent(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	byHand := &registry.Instance{Agent: a.Name, ID: "hand", URL: "https://hand.example.com", CardURL: "https://hand.example.com", Status: registry.InstanceReady, CreatedAt: now, UpdatedAt: now, CheckedAt: now}
	if err := b.db.SaveInstance(t.Context(), byHand); err != nil {
		t.Fatal(err)
	}
	one := documents(t, doc("Agent", "a", guarded+", instances: [{id: c, url: 'https://guarded-c.example.com', credential: true}]")+doc("Credential", "a", "kind: bearer, "+ref), "s")
	if p := b.must(t, apply.Request{Documents: one}); len(p.Changes) != 0 || len(p.Orphans) != 1 || p.Orphans[0].Name != "a/b https://b.example.com" {
		t.Errorf("not pruned: %+v", p)
	}
	if p := b.must(t, apply.Request{Documents: one, Prune: true}); told(p) != "remove Instance a/b url:https://b.example.com>\n" {
		t.Errorf("pruned %q", told(p))
	}
	status := map[string]registry.InstanceStatus{}
	all, err := b.db.Instances(t.Context(), "a")
	for _, i := range all {
		status[i.ID] = i.Status
	}
	if err != nil || status["b"] != registry.InstanceDraining || status["c"] != registry.InstanceReady || status["hand"] != registry.InstanceReady {
		t.Errorf("instances %v, %v", status, err)
	}
	b.refused(t, req, parley.Invalid, "/documents/0/spec/instances/0/id", "drains")
	// All go with the agent, and no mark stays.
	b.must(t, apply.Request{Prune: true})
	if marks, err := b.db.Marks(t.Context()); err != nil || len(marks) != 0 {
		t.Errorf("marks %v, %v", marks, err)
	}
}

func TestAnInstanceThatIsNoneRefusesAll(t *testing.T) {
	b := newBed(t)
	for spec, words := range map[string][]string{
		"[{id: b, url: 'https://broken.example.com'}]":                                   {"/documents/0/spec/instances/0", "nothing answers there"},
		"[{id: b, url: 'https://b.example.com'}, {id: b, url: 'https://c.example.com'}]": {"/documents/0/spec/instances/1/id", "declared twice"},
		"[{id: b, url: 'https://b.example.com'}, {id: c, url: 'https://b.example.com'}]": {"/documents/0/spec/instances/1", "called already"},
		"[{id: first, url: 'https://b.example.com'}]":                                    {"/documents/0/spec/instances/0/id", "own address"},
		"[{id: b, url: 'https://guarded-b.example.com'}]":                                {"/documents/0/spec/instances/0/url"},
	} {
		b.refused(t, apply.Request{Documents: documents(t, doc("Agent", "a", "url: https://a.example.com, instances: "+spec), "")}, parley.Invalid, words...)
	}
}

const alice = "spiffe: ['spiffe://example.com/alice'], dns: [Laptop.example.com], subjects: [{issuer: 'https://login.example.com', subject: alice}]"

func TestWhatProvesAPrincipal(t *testing.T) { onBoth(t, whatProvesAPrincipal) }

func whatProvesAPrincipal(t *testing.T, b *bed) {
	ctx := t.Context()
	req := apply.Request{Documents: documents(t, doc("Principal", "alice", alice), ""), Prune: true}
	p := b.must(t, req)
	const want = `create Principal alice owner:>default environment:>dev
create CertName alice spiffe:>spiffe://example.com/alice
create CertName alice dns:>laptop.example.com
create Subject alice issuer:>https://login.example.com subject:>alice
`
	if told(p) != want {
		t.Errorf("plan\n%swant\n%s", told(p), want)
	}
	after := b.state(t)
	if again := b.must(t, req); len(again.Changes) != 0 || b.state(t) != after {
		t.Errorf("applied again:\n%s", told(again))
	}
	if who, err := b.db.PrincipalByName(ctx, identity.NameDNS, "laptop.example.com"); err != nil || who.Name != "alice" {
		t.Errorf("the name proves %v, %v", who, err)
	}
	// By hand: stays, whatever is pruned.
	if _, err := b.people.LinkName(ctx, "alice", identity.NameDNS, "hand.example.com"); err != nil {
		t.Fatal(err)
	}
	less := documents(t, doc("Principal", "alice", "dns: [laptop.example.com]"), "")
	if p := b.must(t, apply.Request{Documents: less}); len(p.Changes) != 0 || len(p.Orphans) != 2 {
		t.Errorf("not pruned: %+v", p)
	}
	p = b.must(t, apply.Request{Documents: less, Prune: true})
	if text := told(p); strings.Count(text, "remove ") != 2 || !strings.Contains(text, "remove CertName alice spiffe:spiffe://example.com/alice>") || !strings.Contains(text, "subject:alice>") {
		t.Errorf("pruned:\n%s", text)
	}
	if _, _, err := b.db.Linked(ctx, "https://login.example.com", "alice"); parley.KindOf(err) != parley.NotFound {
		t.Errorf("the subject still proves somebody: %v", err)
	}
	if names, err := b.db.Names(ctx, "alice"); err != nil || len(names) != 2 {
		t.Errorf("names %v, %v", names, err)
	}
}

func TestAProofMovesToAnother(t *testing.T) { onBoth(t, aProofMovesToAnother) }

func aProofMovesToAnother(t *testing.T, b *bed) {
	b.must(t, apply.Request{Documents: documents(t, doc("Principal", "alice", alice), "")})
	moved := documents(t, doc("Principal", "alice", "")+doc("Principal", "bob", alice), "")
	b.refused(t, apply.Request{Documents: moved}, parley.Invalid, "/documents/1/spec/dns/0", "proves principal alice already", "--prune")
	b.must(t, apply.Request{Documents: moved, Prune: true})
	l, who, err := b.db.Linked(t.Context(), "https://login.example.com", "alice")
	if err != nil || who.Name != "bob" || l.Principal != "bob" {
		t.Errorf("the subject is %v, %v", who, err)
	}
	if again := b.must(t, apply.Request{Documents: moved, Prune: true}); len(again.Changes) != 0 {
		t.Errorf("applied again:\n%s", told(again))
	}
	// Another set's, or one made by hand, is never taken.
	b.must(t, apply.Request{Set: "other", Documents: documents(t, doc("Principal", "carol", "dns: [carol.example.com]"), "")})
	b.refused(t, apply.Request{Prune: true, Documents: documents(t, doc("Principal", "bob", "dns: [carol.example.com]"), "")}, parley.Invalid, "proves principal carol already")
	if _, err := b.people.LinkName(t.Context(), "carol", identity.NameDNS, "hand.example.com"); err != nil {
		t.Fatal(err)
	}
	b.refused(t, apply.Request{Prune: true, Documents: documents(t, doc("Principal", "bob", "dns: [hand.example.com]"), "")}, parley.Invalid, "proves principal carol already")
}

func TestProofsThatAreNoneRefuseAll(t *testing.T) {
	b := newBed(t)
	for spec, words := range map[string][]string{
		"dns: ['*.example.com']":                                                           {"/documents/0/spec/dns/0", "no host name"},
		"spiffe: ['spiffe://example.com']":                                                 {"/documents/0/spec/spiffe/0", "not a workload"},
		"subjects: [{issuer: nowhere, subject: x}]":                                        {"/documents/0/spec/subjects/0/issuer"},
		"dns: [a.example.com, A.example.com]":                                              {"/documents/0/spec/dns/1", "declared twice"},
		"subjects: [{issuer: 'https://i', subject: x}, {issuer: 'https://i', subject: x}]": {"/documents/0/spec/subjects/1", "declared twice"},
	} {
		b.refused(t, apply.Request{Documents: documents(t, doc("Principal", "p", spec), "")}, parley.Invalid, words...)
	}
	both := doc("Principal", "p", "dns: [a.example.com]") + doc("Principal", "q", "dns: [a.example.com]")
	b.refused(t, apply.Request{Documents: documents(t, both, "")}, parley.Invalid, "/documents/1/spec/dns/0", "declared twice")
}

func TestNobodyPrunesWhatProvesThemselves(t *testing.T) {
	b := newBed(t)
	b.must(t, apply.Request{Documents: documents(t, doc("Principal", "boss", "roles: [admin], dns: [boss.example.com]"), "")})
	boss, err := b.db.Principal(t.Context(), "boss")
	if err != nil {
		t.Fatal(err)
	}
	as := identity.WithCaller(t.Context(), &identity.Caller{Principal: *boss})
	p, err := b.engine.Apply(as, apply.Request{Documents: documents(t, doc("Principal", "boss", "roles: [admin]"), ""), Prune: true})
	if err != nil || len(p.Changes) != 0 || len(p.Orphans) != 1 || p.Orphans[0].Kind != manifest.PartCertName {
		t.Errorf("plan %+v, %v", p, err)
	}
}

func TestAProofThatGoesMeanwhileMakesThePlanAnew(t *testing.T) {
	b := newBed(t)
	b.must(t, apply.Request{Documents: documents(t, doc("Principal", "alice", "dns: [a.example.com]"), "")})
	b.beforeCommit = func() {
		if err := b.people.UnlinkName(t.Context(), "alice", identity.NameDNS, "a.example.com"); err != nil {
			t.Error(err)
		}
	}
	p := b.must(t, apply.Request{Documents: documents(t, doc("Principal", "alice", ""), ""), Prune: true})
	if len(p.Changes) != 0 {
		t.Errorf("plan %s: it removes what is gone", told(p))
	}
}
