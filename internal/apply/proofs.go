package apply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/manifest"
	"github.com/parley-mesh/parley/internal/parley"
)

// proof is one way to prove a principal as a document declares it: a name in
// client certificates or a subject of an issuer.
type proof struct {
	kind    manifest.Kind
	at      string // its pointer in the document
	mark    string // its name as marked
	what    string
	fields  fields
	madeAt  time.Time
	add     func()
	holder  parley.PrincipalName // whom it proves already; empty for nobody
	heldAt  int64
	release func(context.Context, manifest.Mark) (*partRemoval, error)
}

// proofMark is the name under which a proof is marked. Issuers and subjects are
// too long for a key, so that their hash stands in it.
func proofMark(principal parley.PrincipalName, kind, name string) string {
	sum := sha256.Sum256([]byte(kind + "\x00" + name))
	return string(principal) + "/" + hex.EncodeToString(sum[:16])
}

func certNameMark(n *identity.CertName) string {
	return proofMark(n.Principal, string(n.Kind), n.Name)
}

func subjectMark(l *identity.Link) string { return proofMark(l.Principal, l.Issuer, l.Subject) }

// planProofs makes what a document declares prove its principal, which may be a
// draft.
func (p *planner) planProofs(ctx context.Context, i int, d Input, who *identity.Principal) error {
	names, err := p.Store.Names(ctx, who.Name)
	if err != nil {
		return err
	}
	left := identity.MaxNames - len(names)
	for _, of := range []struct {
		kind  identity.NameKind
		names []string
	}{{identity.NameSPIFFE, d.Principal.SPIFFE}, {identity.NameDNS, d.Principal.DNS}} {
		for j, name := range of.names {
			at := fmt.Sprintf("/spec/%s/%d", of.kind, j)
			one, err := p.certName(ctx, i, at, who, of.kind, name)
			if err != nil {
				return err
			}
			if one == nil {
				continue
			}
			if one.holder != who.Name {
				left--
			}
			if left < 0 {
				p.refuse(i, at, fmt.Sprintf("is one more than the %d names that a principal may have", identity.MaxNames), "take another away")
				continue
			}
			if err := p.takeProof(ctx, i, who, one); err != nil {
				return err
			}
		}
	}
	for j, s := range d.Principal.Subjects {
		one, err := p.subject(ctx, i, fmt.Sprintf("/spec/subjects/%d", j), who, s)
		if err != nil {
			return err
		}
		if one == nil {
			continue
		}
		if err := p.takeProof(ctx, i, who, one); err != nil {
			return err
		}
	}
	return nil
}

// certName drafts a name in certificates; nil where it is refused.
func (p *planner) certName(ctx context.Context, i int, at string, who *identity.Principal, kind identity.NameKind, name string) (*proof, error) {
	n, event, err := p.Identity.DraftCertName(ctx, who, kind, name)
	if ok, err := p.judgeAt(err, func(string) (int, string) { return i, at }); !ok {
		return nil, err
	}
	one := &proof{
		kind: manifest.PartCertName, at: at, mark: certNameMark(n), what: n.Name, madeAt: n.CreatedAt,
		fields: fields{{string(kind), "", n.Name}}, add: func() { p.batch.LinkName(ctx, n, event) },
	}
	holder, err := stored(p.Store.PrincipalByName(ctx, n.Kind, n.Name))
	if err != nil || holder == nil {
		return one, err
	}
	one.holder = holder.Name
	held, err := p.Store.Names(ctx, holder.Name)
	for _, h := range held {
		if h.Kind == n.Kind && h.Name == n.Name {
			one.heldAt = h.CreatedAt.UnixMicro()
		}
	}
	one.release = func(ctx context.Context, m manifest.Mark) (*partRemoval, error) {
		return p.certNameRemoval(ctx, m, holder.Name)
	}
	return one, err
}

// subject drafts a subject of an issuer; nil where it is refused.
func (p *planner) subject(ctx context.Context, i int, at string, who *identity.Principal, s manifest.Subject) (*proof, error) {
	l, event, err := p.Identity.DraftLink(ctx, who, s.Issuer, s.Subject)
	if ok, err := p.judgeAt(err, func(path string) (int, string) { return i, at + path }); !ok {
		return nil, err
	}
	one := &proof{
		kind: manifest.PartSubject, at: at, mark: subjectMark(l), what: "subject " + l.Subject, madeAt: l.CreatedAt,
		fields: fields{{"issuer", "", l.Issuer}, {"subject", "", l.Subject}}, add: func() { p.batch.AddLink(ctx, l, event) },
	}
	held, holder, err := p.Store.Linked(ctx, s.Issuer, s.Subject)
	switch {
	case err != nil && parley.KindOf(err) == parley.NotFound:
		return one, nil
	case err != nil:
		return nil, err
	}
	one.holder, one.heldAt = holder.Name, held.CreatedAt.UnixMicro()
	one.release = func(ctx context.Context, m manifest.Mark) (*partRemoval, error) {
		return p.subjectRemoval(ctx, m, holder.Name)
	}
	return one, nil
}

// takeProof puts a proof into the plan.
func (p *planner) takeProof(ctx context.Context, i int, who *identity.Principal, one *proof) error {
	_, unique, _ := strings.Cut(one.mark, "/")
	key := string(one.kind) + "/" + unique
	if first, twice := p.proves[key]; twice {
		p.refuse(i, one.at, fmt.Sprintf("%s is declared twice, by document %d as well", one.what, first+1), "keep one")
		return nil
	}
	p.proves[key] = i
	mark := id(one.kind, one.mark)
	p.parts[mark] = true
	if one.holder == who.Name {
		p.freePart(i, one.at, mark, one.what, one.heldAt)
		return nil // what does not change counts with its principal
	}
	if one.holder != "" {
		if ok, err := p.released(ctx, i, one); !ok {
			return err
		}
	}
	p.change(Change{Action: Create, Kind: one.kind, Name: string(who.Name), Fields: one.fields})
	one.add()
	p.batch.Mark(manifest.Mark{Kind: one.kind, Name: one.mark, Set: p.req.Set, MadeAt: one.madeAt})
	return nil
}

// released takes a proof away from whom it proves now, where this set has given
// it and may prune; else it is refused.
func (p *planner) released(ctx context.Context, i int, one *proof) (bool, error) {
	_, unique, _ := strings.Cut(one.mark, "/")
	m, marked := p.marks[id(one.kind, string(one.holder)+"/"+unique)]
	if marked && p.req.Prune && m.Set == p.req.Set && m.MadeAt.UnixMicro() == one.heldAt && one.holder != caller(ctx) {
		r, err := one.release(ctx, m)
		if err != nil {
			return false, err
		}
		if r != nil {
			p.removePart(m, r)
			return true, nil
		}
	}
	p.refuse(i, one.at, fmt.Sprintf("%s proves principal %s already", one.what, one.holder), "take it away there first (parley principal unlink), or apply with --prune what has given it")
	return false, nil
}

func (p *planner) certNameRemoval(ctx context.Context, m manifest.Mark, principal parley.PrincipalName) (*partRemoval, error) {
	who, err := stored(p.Store.Principal(ctx, principal))
	if err != nil || who == nil {
		return nil, err
	}
	names, err := p.Store.Names(ctx, principal)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if certNameMark(n) == m.Name && n.CreatedAt.UnixMicro() == m.MadeAt.UnixMicro() {
			return &partRemoval{name: string(principal), fields: fields{{string(n.Kind), n.Name, ""}}, do: func() {
				p.batch.UnlinkName(ctx, n, p.Identity.RemovedCertNameEvent(ctx, who, n))
			}}, nil
		}
	}
	return nil, nil
}

// maxLinks is how many subjects of one principal are looked through.
const maxLinks = 1000

func (p *planner) subjectRemoval(ctx context.Context, m manifest.Mark, principal parley.PrincipalName) (*partRemoval, error) {
	who, err := stored(p.Store.Principal(ctx, principal))
	if err != nil || who == nil {
		return nil, err
	}
	links, err := p.Store.Links(ctx, principal, maxLinks)
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		if subjectMark(l) == m.Name && l.CreatedAt.UnixMicro() == m.MadeAt.UnixMicro() {
			return &partRemoval{name: string(principal), fields: fields{{"issuer", l.Issuer, ""}, {"subject", l.Subject, ""}}, do: func() {
				p.batch.RemoveLink(ctx, l, p.Identity.RemovedLinkEvent(ctx, who, l))
			}}, nil
		}
	}
	return nil, nil
}
