package identity

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/parley-mesh/parley/internal/parley"
)

// NameKind is which part of a client certificate a name stands in.
type NameKind string

// The kinds of names.
const (
	NameSPIFFE NameKind = "spiffe" // the one URI SAN, spiffe://TRUST-DOMAIN/PATH
	NameDNS    NameKind = "dns"    // a DNS SAN, lower case, no wildcard
)

// CertName links a name in client certificates to the principal that it proves.
type CertName struct {
	Kind      NameKind
	Name      string
	Principal parley.PrincipalName
	CreatedAt time.Time
}

// NameStore keeps which names in client certificates prove which principal. A
// name belongs to one principal at most, and goes with it.
type NameStore interface {
	// PrincipalByName gives the principal of a name, or a parley.NotFound error.
	PrincipalByName(ctx context.Context, kind NameKind, name string) (*Principal, error)
	// Names gives all names of a principal, by kind and name.
	Names(ctx context.Context, principal parley.PrincipalName) ([]*CertName, error)
	// LinkName adds a name: parley.Conflict where it is taken, parley.NotFound
	// where the principal does not exist.
	LinkName(ctx context.Context, n *CertName, events ...parley.Event) error
	// UnlinkName takes the name from that principal: parley.NotFound where it
	// has no such name.
	UnlinkName(ctx context.Context, n *CertName, events ...parley.Event) error
}

// MaxNames bounds the names of one principal.
const MaxNames = 100

// Names gives the names in client certificates that prove a principal, or a
// parley.NotFound error where there is no such principal.
func (d *Directory) Names(ctx context.Context, principal parley.PrincipalName) ([]*CertName, error) {
	if _, err := d.store.Principal(ctx, principal); err != nil {
		return nil, err
	}
	return d.store.Names(ctx, principal)
}

// LinkName lets a name in client certificates prove a principal. Errors:
// parley.Invalid where it can be no such name, parley.NotFound, parley.Conflict
// where the name proves a principal already.
func (d *Directory) LinkName(ctx context.Context, principal parley.PrincipalName, kind NameKind, name string) (*CertName, error) {
	const op = "identity.linkName"
	name, problem, fix := checkCertName(kind, name)
	if problem != "" {
		return nil, invalid(op, parley.Subject(principal), []parley.Field{{Path: "/name", Problem: problem, Fix: fix}})
	}
	p, err := d.store.Principal(ctx, principal)
	if err != nil {
		return nil, err
	}
	has, err := d.store.Names(ctx, principal)
	if err != nil {
		return nil, err
	}
	if len(has) >= MaxNames {
		return nil, parley.E(op, parley.Exhausted, parley.Subject(principal),
			fmt.Sprintf("principal %s has %d names, which is the limit: unlink one (parley principal unlink)", principal, MaxNames), nil)
	}
	n := &CertName{Kind: kind, Name: name, Principal: principal, CreatedAt: d.opts.Now()}
	if err := d.store.LinkName(ctx, n, d.nameEvent(ctx, "principal.linked", p, n)); err != nil {
		if parley.KindOf(err) != parley.Conflict {
			return nil, err
		}
		return nil, d.nameTaken(ctx, op, n, err)
	}
	d.Invalidate()
	return n, nil
}

// nameTaken says whom a name proves already.
func (d *Directory) nameTaken(ctx context.Context, op parley.Op, n *CertName, cause error) error {
	holder := "another principal"
	if p, err := d.store.PrincipalByName(ctx, n.Kind, n.Name); err == nil {
		holder = "principal " + string(p.Name)
	}
	return &parley.Error{
		Op: op, Kind: parley.Conflict, Subject: parley.Subject(n.Principal), Err: cause,
		Message: fmt.Sprintf("%s proves %s already", n.Name, holder),
		Fields:  []parley.Field{{Path: "/name", Problem: "is linked", Fix: fmt.Sprintf("take it away first: parley principal unlink NAME --%s %s", n.Kind, n.Name)}},
	}
}

// UnlinkName takes a name from a principal; certificates with it prove nobody
// from then on. parley.NotFound where the principal has no such name.
func (d *Directory) UnlinkName(ctx context.Context, principal parley.PrincipalName, kind NameKind, name string) error {
	p, err := d.store.Principal(ctx, principal)
	if err != nil {
		return err
	}
	if canonical, problem, _ := checkCertName(kind, name); problem == "" {
		name = canonical
	}
	n := &CertName{Kind: kind, Name: name, Principal: principal}
	if err := d.store.UnlinkName(ctx, n, d.nameEvent(ctx, "principal.unlinked", p, n)); err != nil {
		if parley.KindOf(err) == parley.NotFound {
			return parley.E("identity.unlinkName", parley.NotFound, parley.Subject(principal),
				fmt.Sprintf("principal %s has no %s name %.200q: see parley principal show %s", principal, kind, name, principal), err)
		}
		return err
	}
	d.Invalidate()
	return nil
}

func (d *Directory) nameEvent(ctx context.Context, typ string, p *Principal, n *CertName) parley.Event {
	return changeEvent(ctx, d.opts.Now(), typ, "principals/"+string(p.Name), p.Owner, p.Environment, changeData{
		Name: string(p.Name), Kind: n.Kind, CertName: n.Name,
	})
}

// checkCertName gives the canonical form of a name in a certificate, or what is
// wrong with it.
func checkCertName(kind NameKind, name string) (canonical, problem, fix string) {
	switch kind {
	case NameSPIFFE:
		id, err := spiffeid.FromString(name)
		switch {
		case err != nil:
			return "", fmt.Sprintf("is no SPIFFE id: %v", err), "write spiffe://TRUST-DOMAIN/PATH as the workload's certificate has it"
		case id.Path() == "":
			return "", "names a trust domain, not a workload", "write the whole id, with its path"
		}
		return id.String(), "", ""
	case NameDNS:
		canonical, ok := dnsName(name)
		if !ok {
			return "", fmt.Sprintf("%.100q is no host name", name), "write one host name without a wildcard, such as job.finance.example.com"
		}
		return canonical, "", ""
	}
	return "", fmt.Sprintf("the kind %.20q is unknown", kind), "use spiffe or dns"
}

// dnsName is a host name in lower case; ok is false for wildcards, addresses and
// whatever else is no host name.
func dnsName(name string) (_ string, ok bool) {
	name = strings.ToLower(name)
	if name == "" || len(name) > 253 {
		return "", false
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return "", false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return "", false
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
				return "", false
			}
		}
	}
	return name, true
}
