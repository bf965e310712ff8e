package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// T is what fails where a certificate cannot be made: a testing.TB, or a script.
type T interface {
	Fatalf(format string, args ...any)
}

// Authority is a certificate authority, a root or one below another.
type Authority struct {
	Cert  *x509.Certificate
	above []*x509.Certificate // between it and the root, it first; empty for a root
	key   *ecdsa.PrivateKey
}

// NewAuthority makes a root of that name.
func NewAuthority(t T, name string) *Authority {
	template := authority(t, name)
	key := newKey(t)
	return &Authority{Cert: sign(t, template, template, key, key), key: key}
}

// Intermediate makes an authority below a. Changes to the template make it an
// odd one.
func (a *Authority) Intermediate(t T, name string, change ...func(*x509.Certificate)) *Authority {
	template := authority(t, name)
	for _, c := range change {
		c(template)
	}
	key := newKey(t)
	below := &Authority{Cert: sign(t, template, a.Cert, key, a.key), key: key}
	below.above = append([]*x509.Certificate{below.Cert}, a.above...)
	return below
}

// Client makes a certificate for a client, with the chain that belongs to it.
// Without changes it is good and names nobody; see SPIFFE and DNS.
func (a *Authority) Client(t T, change ...func(*x509.Certificate)) tls.Certificate {
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: "client under test"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	for _, c := range change {
		c(template)
	}
	key := newKey(t)
	leaf := sign(t, template, a.Cert, key, a.key)
	out := tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}
	for _, c := range a.above {
		out.Certificate = append(out.Certificate, c.Raw)
	}
	return out
}

// SPIFFE adds a URI name.
func SPIFFE(id string) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		u, err := url.Parse(id)
		if err != nil {
			panic(err)
		}
		c.URIs = append(c.URIs, u)
	}
}

// DNS adds DNS names.
func DNS(names ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.DNSNames = append(c.DNSNames, names...) }
}

// CRL makes a list, in DER, that revokes certificates and is current until next.
func (a *Authority) CRL(t T, next time.Time, revoked ...*x509.Certificate) []byte {
	return a.SpecialCRL(t, func(l *x509.RevocationList) { l.NextUpdate = next }, revoked...)
}

// SpecialCRL makes a list that is changed before it is signed.
func (a *Authority) SpecialCRL(t T, change func(*x509.RevocationList), revoked ...*x509.Certificate) []byte {
	template := &x509.RevocationList{Number: serial(t), ThisUpdate: time.Now().Add(-2 * time.Hour), NextUpdate: time.Now().Add(time.Hour)}
	for _, c := range revoked {
		template.RevokedCertificateEntries = append(template.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: c.SerialNumber, RevocationTime: time.Now().Add(-time.Hour)})
	}
	change(template)
	der, err := x509.CreateRevocationList(rand.Reader, template, a.Cert, a.key)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return der
}

// PEM are certificates as a bundle.
func PEM(all ...*x509.Certificate) (bundle []byte) {
	for _, c := range all {
		bundle = append(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return bundle
}

// WritePair writes a certificate with its chain and its key as PEM files.
func WritePair(t T, dir, name string, pair tls.Certificate) (cert, key string) {
	var chain []byte
	for _, der := range pair.Certificate {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatalf("%v", err)
	}
	cert, key = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
	for path, content := range map[string][]byte{cert: chain, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatalf("%v", err)
		}
	}
	return cert, key
}

func authority(t T, name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
}

func newKey(t T) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return key
}

func serial(t T) *big.Int {
	n, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatalf("%v", err)
	}
	return n
}

func sign(t T, template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) *x509.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatalf("%v", err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return c
}
