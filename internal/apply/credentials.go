package apply

import (
	"context"
	"crypto/subtle"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-mesh/parley/internal/manifest"
	"github.com/parley-mesh/parley/internal/registry"
)

// checkCredential refuses a document whose parts did not come, or that would
// take away what it does not speak of.
func (p *planner) checkCredential(a *agentDraft) {
	d := p.req.Documents[a.auth]
	if d.Credential.SecretRef != nil && d.Secret == "" {
		p.refuse(a.auth, manifest.PointerSecret, "the secret is empty", "put it where the reference points")
	}
	switch want := d.Credential.Certificate; {
	case want == nil && d.Certificate != nil:
		p.refuse(a.auth, "/spec", "a certificate came with it that it does not declare", "add certificate")
	case want == nil:
	case d.Certificate == nil || d.Certificate.Chain == "" || d.Certificate.Key == "":
		p.refuse(a.auth, "/spec/certificate", "the certificate or its key is empty", "put both where the references point")
	case (want.CARef != nil) != (d.Certificate.CA != ""):
		p.refuse(a.auth, "/spec/certificate", "the CA is empty, or came without being declared", "put it where caRef points")
	}
	if a.oldAuth == nil {
		return
	}
	mark, madeAt := d.ID(), a.oldAuth.CreatedAt.UnixMicro()
	if p.free(a.auth, d, madeAt) && a.oldAuth.Certificate != nil && d.Credential.Certificate == nil && !p.ours(mark, madeAt) {
		p.refuse(a.auth, "/spec", fmt.Sprintf("the agent has a client certificate that no document of this set has given it (%s), and it would be lost", certificateText(a.oldAuth.Certificate)),
			fmt.Sprintf("declare it as certificate, or remove the credential first: parley agent auth %s --remove", a.name))
	}
}

// credential is what the documents declare for an agent; nil for none.
func (p *planner) credential(a *agentDraft) *registry.Credential {
	if a.auth < 0 {
		return nil
	}
	d := p.req.Documents[a.auth]
	c := &registry.Credential{
		Kind: registry.CredentialKind(d.Credential.Kind), In: d.Credential.In, Name: d.Credential.Name,
		Origin: d.Credential.Origin, Secret: d.Secret, Certificate: d.Certificate,
	}
	if q := d.Credential.OAuth2; q != nil {
		c.Name = q.ClientID
		c.Token = &registry.TokenRequest{URL: q.TokenURL, Scopes: q.Scopes, Audience: q.Audience, Style: q.AuthStyle}
	}
	return c
}

// sameCredential reports whether what is declared is what is stored. An origin
// that is not declared is whichever one was found when it was stored.
func (p *planner) sameCredential(a *agentDraft) bool {
	want, have := p.credential(a), a.oldAuth
	if want == nil {
		return true
	}
	if have == nil || want.Origin != "" && !have.For(want.Origin) {
		return false
	}
	shape := *want
	shape.Origin = have.Origin
	return slices.Equal(settings(&shape), settings(have)) && sameSecret(want.Secret, have.Secret) && sameCertificate(want.Certificate, have.Certificate)
}

func sameSecret(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func sameCertificate(a, b *registry.ClientCertificate) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Chain == b.Chain && a.CA == b.CA && sameSecret(a.Key, b.Key)
}

// setting is one member of a credential that is no secret.
type setting struct{ path, value string }

// settings are the members of a credential that are no secret and no
// certificate, always the same paths.
func settings(c *registry.Credential) []setting {
	name, client := c.Name, ""
	if c.Kind == registry.OAuth2 {
		name, client = "", c.Name
	}
	q := &registry.TokenRequest{}
	style := ""
	if c.Token != nil {
		q, style = c.Token, registry.AuthBasic
		if q.Style != "" {
			style = q.Style
		}
	}
	return []setting{
		{"kind", string(c.Kind)}, {"in", c.In}, {"name", name}, {"origin", c.Origin},
		{"oauth2.tokenUrl", q.URL}, {"oauth2.clientId", client}, {"oauth2.scopes", strings.Join(q.Scopes, " ")},
		{"oauth2.audience", q.Audience}, {"oauth2.authStyle", style},
	}
}

// certificateText tells a certificate from others; empty for none.
func certificateText(c *registry.ClientCertificate) string {
	if c == nil {
		return ""
	}
	const enough = 12 // of the fingerprint, to tell two of one subject apart
	return fmt.Sprintf("%s, fingerprint %s", strings.TrimPrefix(c.String(), "client certificate "), c.Fingerprint()[:enough])
}

// credentialFields are the differences between two credentials. Secrets and
// keys are only said to be set.
func credentialFields(was, made *registry.Credential) (f fields) {
	before := settings(was)
	for i, s := range settings(made) {
		f.add(s.path, before[i].value, s.value)
	}
	f.add("certificate", certificateText(was.Certificate), certificateText(made.Certificate))
	f.addSecret("certificate.key", keyOf(was.Certificate), keyOf(made.Certificate))
	f.addSecret("secret", was.Secret, made.Secret)
	return f
}

func keyOf(c *registry.ClientCertificate) string {
	if c == nil {
		return ""
	}
	return c.Key
}

// takeCredential puts the agent's credential into the plan.
func (p *planner) takeCredential(ctx context.Context, a *agentDraft, found []string) {
	made := a.made.Credential
	if made == nil {
		p.plan.Unchanged++
		return
	}
	c := Change{Action: Create, Kind: manifest.KindCredential, Name: string(a.name)}
	var before time.Time
	was := &registry.Credential{}
	if a.oldAuth != nil {
		c.Action, was, before = Update, a.oldAuth, a.oldAuth.CreatedAt
	}
	c.Fields = credentialFields(was, made)
	if a.old != nil {
		c.Notes = found
	}
	p.change(c)
	p.batch.ReplaceCredential(ctx, before, made)
	// One that replaces a credential of somebody else's making stays theirs.
	if a.oldAuth == nil || p.ours(id(manifest.KindCredential, string(a.name)), before.UnixMicro()) {
		p.batch.Mark(manifest.Mark{Kind: manifest.KindCredential, Name: string(a.name), Set: p.req.Set, MadeAt: made.CreatedAt})
	}
}

// place is where in the documents the member of a domain stands.
func (a *agentDraft) place(path string) (i int, pointer string) {
	first, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), ".")
	if a.auth < 0 {
		return a.document(), documentPointer(path)
	}
	switch first {
	case "secret", "kind", "in", "origin":
		return a.auth, documentPointer(path)
	case "oauth2":
		members := map[string]string{"url": "/tokenUrl", "style": "/authStyle", "scopes": "/scopes", "audience": "/audience"}
		return a.auth, "/spec/oauth2" + members[rest]
	case "certificate":
		members := map[string]string{"chain": "/chainRef", "key": "/keyRef", "ca": "/caRef"}
		return a.auth, "/spec/certificate" + members[rest]
	}
	return a.document(), documentPointer(path)
}
