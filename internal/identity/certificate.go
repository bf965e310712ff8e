package identity

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/parley-mesh/parley/internal/parley"
)

// Certificates judges what a client presented in the TLS handshake.
type Certificates interface {
	// Verify is nil where the certificates, the leaf first, are a client's of an
	// authority that is taken, valid now and not revoked. Its error says what is
	// wrong, for whoever presents them.
	Verify(presented []*x509.Certificate) error
}

const (
	// certificateTrusted is how long a certificate that was judged is not judged
	// again on a connection that stays open, unless authorities or revocation
	// lists change: by then a list may have gone out of date.
	certificateTrusted = time.Minute
	// maxCertNames is how many DNS names of a certificate are looked up.
	maxCertNames = 16
)

// PeerCertificates are the certificates that the client of a connection
// presented, the leaf first; none without TLS. Nothing is believed of them: that
// is Identify's to decide.
func PeerCertificates(s *tls.ConnectionState) []*x509.Certificate {
	if s == nil {
		return nil
	}
	return s.PeerCertificates
}

// RefuseCertificate counts a client certificate that was refused in a handshake
// as a failed attempt of its address.
func (d *Directory) RefuseCertificate(remoteAddr string) {
	// The error is for an answer, and a failed handshake has none.
	_ = d.refuse(Credential{RemoteAddr: remoteAddr}, ReasonCertificate)
}

// identifyConnection says who presents a client certificate, and perhaps another
// credential beside it.
func (d *Directory) identifyConnection(ctx context.Context, c Credential) (*Caller, error) {
	proven, no, err := d.proven(ctx, c)
	switch {
	case err != nil:
		return nil, err
	case no != nil && no.Reason == ReasonLimited:
		d.failures.count(no.Reason)
		return nil, refused(no)
	case no != nil && (no.Reason != ReasonCertUnlinked || !c.spoken()):
		return nil, d.refuseWith(c, no)
	case !c.spoken():
		return admitted(proven)
	}
	caller, err := d.identifyRequest(ctx, c)
	if err == nil && proven != nil && proven.Name != caller.Name {
		return nil, d.refuse(c, ReasonTwoPrincipals)
	}
	return caller, err
}

// proven is the principal of a client certificate, or why there is none. It may
// be frozen.
func (d *Directory) proven(ctx context.Context, c Credential) (*Caller, *Refusal, error) {
	now, hash := d.opts.Now(), hashCertificates(c.Certificates)
	if caller := d.cache.get(hash, now); caller != nil {
		return caller, nil, nil
	}
	if wait := d.failures.wait(c.RemoteAddr, now); wait > 0 {
		return nil, &Refusal{Reason: ReasonLimited, RetryAfter: wait}, nil
	}
	gen := d.cache.generation() // before the store is asked, see verify
	if d.opts.Certificates == nil {
		return nil, &Refusal{Reason: ReasonCertificate, Detail: "client certificates are not taken here"}, nil
	}
	if err := d.opts.Certificates.Verify(c.Certificates); err != nil {
		return nil, &Refusal{Reason: ReasonCertificate, Detail: fmt.Sprintf("the client certificate is not taken: %v", err)}, nil
	}
	leaf := c.Certificates[0]
	principal, no, err := d.holder(ctx, leaf)
	if err != nil || no != nil {
		return nil, no, err
	}
	until := now.Add(certificateTrusted)
	if leaf.NotAfter.Before(until) {
		until = leaf.NotAfter
	}
	caller := &Caller{Principal: *principal}
	d.cache.put(hash, cachedKey{caller: caller, expires: until, generation: gen})
	return caller, nil, nil
}

// hashCertificates is the place of certificates in the cache. The text before
// them keeps it apart from the hash of any key.
func hashCertificates(presented []*x509.Certificate) (hash [32]byte) {
	h := sha256.New()
	h.Write([]byte("client certificates\x00"))
	for _, c := range presented { // DER says its own length
		h.Write(c.Raw)
	}
	h.Sum(hash[:0])
	return hash
}

// holder finds the principal whom a judged leaf proves: by its SPIFFE id where
// it has one, else by its DNS names.
func (d *Directory) holder(ctx context.Context, leaf *x509.Certificate) (*Principal, *Refusal, error) {
	for _, u := range leaf.URIs {
		if strings.EqualFold(u.Scheme, "spiffe") {
			return d.holderOfSPIFFE(ctx, leaf)
		}
	}
	return d.holderOfDNS(ctx, leaf)
}

// unusable refuses a certificate for its names.
func unusable(format string, args ...any) *Refusal {
	return &Refusal{Reason: ReasonCertName, Detail: "the client certificate " + fmt.Sprintf(format, args...)}
}

func (d *Directory) holderOfSPIFFE(ctx context.Context, leaf *x509.Certificate) (*Principal, *Refusal, error) {
	if n := len(leaf.URIs); n != 1 {
		return nil, unusable("has %d URI names, and one with a SPIFFE id may have that one only", n), nil
	}
	id, err := spiffeid.FromURI(leaf.URIs[0])
	switch {
	case err != nil:
		return nil, unusable("has a SPIFFE id that is none: %v", err), nil
	case id.Path() == "":
		return nil, unusable("names a trust domain, not a workload"), nil
	case !slices.Contains(d.opts.TrustDomains, id.TrustDomain().Name()):
		return nil, unusable("is of the trust domain %s, which is not taken here (auth.spiffe.trust_domains)", id.TrustDomain().Name()), nil
	}
	return d.linked(ctx, NameSPIFFE, []string{id.String()})
}

func (d *Directory) holderOfDNS(ctx context.Context, leaf *x509.Certificate) (*Principal, *Refusal, error) {
	if n := len(leaf.DNSNames); n > maxCertNames {
		return nil, unusable("has %d DNS names, more than the %d that are looked at", n, maxCertNames), nil
	}
	var names []string
	for _, n := range leaf.DNSNames {
		if name, ok := dnsName(n); ok { // wildcards name nobody
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, unusable("has neither a SPIFFE id nor a DNS name without a wildcard"), nil
	}
	return d.linked(ctx, NameDNS, names)
}

// linked is the one principal to whom any of the names is linked.
func (d *Directory) linked(ctx context.Context, kind NameKind, names []string) (*Principal, *Refusal, error) {
	var found *Principal
	for _, name := range names {
		p, err := d.store.PrincipalByName(ctx, kind, name)
		switch {
		case err != nil && parley.KindOf(err) == parley.NotFound:
		case err != nil:
			return nil, nil, err
		case found != nil && found.Name != p.Name:
			return nil, unusable("has names of two principals, %s and %s", found.Name, p.Name), nil
		default:
			found = p
		}
	}
	if found == nil {
		return nil, &Refusal{Reason: ReasonCertUnlinked, Detail: fmt.Sprintf(
			"the client certificate is valid and %s is linked to no principal; to link it: parley principal link NAME --%s %s", names[0], kind, names[0])}, nil
	}
	return found, nil, nil
}
