package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"
)

// maxPresented is how many certificates a client may present. Real chains have
// two to four.
const maxPresented = 8

// authorities judge client certificates.
type authorities struct {
	roots         *x509.CertPool
	intermediates *x509.CertPool
	revocation    bool // certificates must not be revoked
	lenient       bool // not knowing is no reason to refuse
	lists         []*list
}

// readAuthorities reads a bundle. A certificate in it that another one of the
// bundle has issued is no anchor of trust by itself: it could not be revoked.
func readAuthorities(file string) (*authorities, error) {
	raw, err := readFile(file, maxBundle)
	if err != nil {
		return nil, err
	}
	var all []*x509.Certificate
	for {
		var block *pem.Block
		if block, raw = pem.Decode(raw); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: certificate %d: %w", file, len(all)+1, err)
		}
		if !c.BasicConstraintsValid || !c.IsCA {
			return nil, fmt.Errorf("%s: certificate %d (%s) is not an authority's: list authorities only", file, len(all)+1, c.Subject)
		}
		all = append(all, c)
	}
	if len(bytes.TrimSpace(raw)) > 0 {
		return nil, fmt.Errorf("%s: what follows certificate %d is not PEM", file, len(all))
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s holds no certificate in PEM form", file)
	}
	a := &authorities{roots: x509.NewCertPool(), intermediates: x509.NewCertPool()}
	for _, c := range all {
		if slices.ContainsFunc(all, func(issuer *x509.Certificate) bool { return !issuer.Equal(c) && issued(issuer, c) }) && !issued(c, c) {
			a.intermediates.AddCert(c)
		} else {
			a.roots.AddCert(c)
		}
	}
	return a, nil
}

func issued(issuer, c *x509.Certificate) bool {
	return bytes.Equal(issuer.RawSubject, c.RawIssuer) && c.CheckSignatureFrom(issuer) == nil
}

// verify judges what a client presents. Every chain to an authority is tried;
// one good one is enough.
func (a *authorities) verify(presented []*x509.Certificate, now time.Time) error {
	switch n := len(presented); {
	case n == 0:
		return errors.New("there is no certificate")
	case n > maxPresented:
		return fmt.Errorf("%d certificates are more than the %d that are looked at", n, maxPresented)
	}
	leaf := presented[0]
	if err := fitsClient(leaf); err != nil {
		return err
	}
	between := a.intermediates.Clone()
	for _, c := range presented[1:] {
		between.AddCert(c)
	}
	chains, err := leaf.Verify(x509.VerifyOptions{
		Roots: a.roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return worded(err)
	}
	if !a.revocation {
		return nil
	}
	for _, chain := range chains {
		if err = a.revoked(chain, now); err == nil {
			return nil
		}
	}
	return err
}

// fitsClient refuses certificates that are not made for a client to show.
func fitsClient(leaf *x509.Certificate) error {
	switch {
	case leaf.IsCA:
		return errors.New("it is an authority's certificate, not a client's")
	case leaf.KeyUsage&(x509.KeyUsageCertSign|x509.KeyUsageCRLSign) != 0:
		return errors.New("its key may sign certificates or revocation lists: that is not a client's")
	case leaf.KeyUsage != 0 && leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0:
		return errors.New("its key usage lacks digitalSignature")
	case !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth) && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny):
		return errors.New("its extended key usage lacks clientAuth")
	}
	return nil
}

// worded says a failure of x509 without the names that are in the certificates.
func worded(err error) error {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return errors.New("it is signed by none of the authorities in tls.client_ca")
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Reason == x509.Expired {
		return errors.New("it, or an authority above it, has expired or is not valid yet")
	}
	return fmt.Errorf("it is not valid: %w", err)
}

// revoked says why a chain, which leads from the leaf to a root, cannot be
// trusted not to be revoked; nil if it can.
func (a *authorities) revoked(chain []*x509.Certificate, now time.Time) error {
	for i, c := range chain[:len(chain)-1] {
		what := "it"
		if i > 0 {
			what = "an authority above it"
		}
		switch known, revoked := a.status(c, chain[i+1], now); {
		case revoked:
			return errors.New(what + " is revoked")
		case !known && !a.lenient:
			return errors.New("no current revocation list tells whether " + what + " is revoked")
		}
	}
	return nil
}

// status looks for a certificate in the lists of its issuer. known says that at
// least one of them is current; an old one still revokes.
func (a *authorities) status(c, issuer *x509.Certificate, now time.Time) (known, revoked bool) {
	for _, l := range a.lists {
		if !l.from(issuer) {
			continue
		}
		known = known || l.current(now)
		revoked = revoked || l.holds(c.SerialNumber)
	}
	return known, revoked
}
