package registry

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"log/slog"
	"time"
)

// Limits of a client certificate.
const (
	maxPEMBytes = 64 << 10
	// ExpiryNotice is how long before a client certificate expires the mesh
	// begins to say so.
	ExpiryNotice = 30 * 24 * time.Hour
)

// ClientCertificate is what the mesh shows in the TLS handshake with an agent.
// Key is sealed at rest; no way of printing or encoding one shows it.
type ClientCertificate struct {
	Chain string // PEM, the mesh's own certificate first
	Key   string `json:"-"` // PEM
	// CA is trusted beside the system's roots for the agent's own certificate
	// and for the token endpoint's; PEM, empty for none.
	CA string
}

// String describes the certificate without its key.
func (c ClientCertificate) String() string {
	leaf := c.Leaf()
	if leaf == nil {
		return "client certificate"
	}
	return "client certificate " + leaf.Subject.String() + " until " + leaf.NotAfter.UTC().Format(time.RFC3339)
}

// GoString is String, so that %#v shows no key either.
func (c ClientCertificate) GoString() string {
	return "registry.ClientCertificate(" + c.String() + ")"
}

// LogValue is String, for the log.
func (c ClientCertificate) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Leaf is the mesh's own certificate; nil where the chain holds none.
func (c *ClientCertificate) Leaf() *x509.Certificate {
	block, _ := pem.Decode([]byte(c.Chain))
	if block == nil {
		return nil
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil
	}
	return leaf
}

// TLS is a TLS client configuration that shows the certificate and trusts its
// CA. It is the caller's own, and fit for every protocol over TLS.
func (c *ClientCertificate) TLS() (*tls.Config, error) {
	pair, err := tls.X509KeyPair([]byte(c.Chain), []byte(c.Key))
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	config.RootCAs, err = c.roots()
	return config, err
}

// roots are the system's and the CA; nil, which means the system's, without
// one.
func (c *ClientCertificate) roots() (*x509.CertPool, error) {
	if c.CA == "" {
		return nil, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil { // a machine without roots still trusts the CA it was given
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM([]byte(c.CA)) {
		return nil, fmt.Errorf("the CA bundle holds no certificate")
	}
	return pool, nil
}

// Fingerprint tells two certificates with their CAs apart.
func (c *ClientCertificate) Fingerprint() string {
	if c == nil {
		return ""
	}
	sum := sha256.Sum256([]byte(c.Chain + "\x00" + c.CA))
	return hex.EncodeToString(sum[:])
}

// check reports every wrong member.
func (c *ClientCertificate) check(add func(path, problem, fix string)) {
	for path, text := range map[string]string{"certificate.chain": c.Chain, "certificate.key": c.Key, "certificate.ca": c.CA} {
		if len(text) > maxPEMBytes {
			add(path, fmt.Sprintf("is %d bytes long", len(text)), fmt.Sprintf("at most %d are allowed", maxPEMBytes))
			return
		}
	}
	switch {
	case c.Leaf() == nil:
		add("certificate.chain", "holds no certificate", "give a PEM file, the client's own certificate first")
		return
	case c.Key == "":
		add("certificate.key", "is empty", "give the certificate's private key as PEM")
		return
	}
	if _, err := tls.X509KeyPair([]byte(c.Chain), []byte(c.Key)); err != nil {
		// The cause may quote what it could not read of the key.
		add("certificate.key", "is not the unencrypted private key of the certificate", "give the key in PEM (PKCS #8, PKCS #1 or SEC 1) that belongs to it")
	}
	if _, err := c.roots(); err != nil {
		add("certificate.ca", "holds no certificate", "give the CA's certificates as PEM")
	}
}

// checkTime refuses a certificate that is no longer valid: it is checked when it
// is stored, and only then, since time passes for those that are stored.
func (c *ClientCertificate) checkTime(now time.Time) (problem string) {
	if leaf := c.Leaf(); leaf != nil && now.After(leaf.NotAfter) {
		return "expired on " + leaf.NotAfter.UTC().Format(time.DateOnly)
	}
	return ""
}

// expires says what a person should know of the certificate's end; empty while
// it is far.
func (c *Credential) expires(now time.Time) string {
	if c == nil || c.Certificate == nil {
		return ""
	}
	leaf := c.Certificate.Leaf()
	switch {
	case leaf == nil || now.Add(ExpiryNotice).Before(leaf.NotAfter):
		return ""
	case now.After(leaf.NotAfter):
		return "the client certificate expired on " + leaf.NotAfter.UTC().Format(time.DateOnly)
	}
	return "the client certificate expires on " + leaf.NotAfter.UTC().Format(time.DateOnly)
}
