package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mesh/parley/internal/certtest"
)

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// files are a server's pair and a client bundle in a folder.
func files(t *testing.T) (o Options, root *certtest.Authority) {
	t.Helper()
	dir := t.TempDir()
	root = certtest.NewAuthority(t, "root")
	o.Cert, o.Key, _ = certtest.Write(t, dir, 1)
	o.ClientCA = filepath.Join(dir, "ca.pem")
	o.Log = slog.New(slog.DiscardHandler)
	write(t, o.ClientCA, certtest.PEM(root.Cert))
	return o, root
}

// A file that cannot be used keeps the mesh from starting, and is named.
func TestFilesThatCannotBeUsed(t *testing.T) {
	o, root := files(t)
	dir := filepath.Dir(o.Cert)
	list := root.CRL(t, time.Now().Add(time.Hour))
	special := func(change func(*x509.RevocationList)) []byte { return root.SpecialCRL(t, change) }
	extension := func(id ...int) func(*x509.RevocationList) {
		return func(l *x509.RevocationList) {
			l.ExtraExtensions = append(l.ExtraExtensions, pkix.Extension{Id: asn1.ObjectIdentifier(id), Critical: true, Value: []byte{5, 0}})
		}
	}
	leaf := root.Client(t)
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	for _, tc := range []struct {
		name    string
		content []byte
		use     func(*Options, string)
		says    string
	}{
		{"bundle that is not PEM", []byte("x"), func(o *Options, f string) { o.ClientCA = f }, "is not PEM"},
		{"empty bundle", nil, func(o *Options, f string) { o.ClientCA = f }, "holds no certificate"},
		{"bundle with a leaf", certtest.PEM(root.Cert, leaf.Leaf), func(o *Options, f string) { o.ClientCA = f }, "certificate 2 (CN=client under test) is not an authority's"},
		{"bundle with something behind it", append(certtest.PEM(root.Cert), "-----BEGIN x"...), func(o *Options, f string) { o.ClientCA = f }, "what follows certificate 1"},
		{"bundle that is cut", block("CERTIFICATE", root.Cert.Raw[:100]), func(o *Options, f string) { o.ClientCA = f }, "certificate 1"},
		{"bundle that is too large", make([]byte, maxBundle+1), func(o *Options, f string) { o.ClientCA = f }, "is larger than"},
		{"key of another certificate", nil, func(o *Options, _ string) { _, o.Key = certtest.WritePair(t, dir, "other", leaf) }, "with key"},
		{"list that is none", []byte("x"), func(o *Options, f string) { o.CRL = f }, "not a revocation list"},
		{"list that is cut", list[:len(list)-3], func(o *Options, f string) { o.CRL = f }, "not a revocation list"},
		{"certificate for a list", block("CERTIFICATE", root.Cert.Raw), func(o *Options, f string) { o.CRL = f }, `"CERTIFICATE"`},
		{"PEM list with something behind it", append(block("X509 CRL", list), "x"...), func(o *Options, f string) { o.CRL = f }, "not a whole revocation list"},
		{"delta list", special(extension(2, 5, 29, 27)), func(o *Options, f string) { o.CRL = f }, "delta or partitioned"},
		{"partitioned list", special(extension(2, 5, 29, 28)), func(o *Options, f string) { o.CRL = f }, "delta or partitioned"},
		{"list with an unknown critical extension", special(extension(1, 2, 3)), func(o *Options, f string) { o.CRL = f }, "critical extension 1.2.3"},
		{"entry with an unknown critical extension", special(func(l *x509.RevocationList) {
			l.RevokedCertificateEntries = []x509.RevocationListEntry{{SerialNumber: leaf.Leaf.SerialNumber, RevocationTime: time.Now(),
				ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3}, Critical: true, Value: []byte{5, 0}}}}}
		}), func(o *Options, f string) { o.CRL = f }, "an entry of the list"},
		{"folder that is not there", nil, func(o *Options, f string) { o.CRL = f + "/none" }, "revocation lists"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "broken")
			write(t, file, tc.content)
			changed := o
			tc.use(&changed, file)
			_, err := Open(changed)
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Fatalf("got %v, want it to say %q", err, tc.says)
			}
			if tc.content != nil && !strings.Contains(err.Error(), file) {
				t.Errorf("%v does not name the file", err)
			}
		})
	}
}

// An intermediate beside its root in the bundle is no anchor: it can be revoked.
func TestIntermediateInTheBundleCanBeRevoked(t *testing.T) {
	o, root := files(t)
	between := root.Intermediate(t, "between")
	write(t, o.ClientCA, certtest.PEM(between.Cert, root.Cert))
	dir := t.TempDir()
	o.CRL = dir
	next := time.Now().Add(time.Hour)
	write(t, filepath.Join(dir, "between.crl"), between.CRL(t, next))
	write(t, filepath.Join(dir, "root.crl"), root.CRL(t, next))
	k, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	leaf := between.Client(t).Leaf
	if err := k.Verify([]*x509.Certificate{leaf}); err != nil {
		t.Fatalf("before: %v", err)
	}
	write(t, filepath.Join(dir, "root.crl"), pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: root.CRL(t, next, between.Cert)}))
	k.look(true)
	if err := k.Verify([]*x509.Certificate{leaf}); err == nil || !strings.Contains(err.Error(), "an authority above it is revoked") {
		t.Errorf("after: %v", err)
	}
	if err := k.Verify(nil); err == nil {
		t.Error("no certificate is a good one")
	}
	if err := k.Verify(make([]*x509.Certificate, maxPresented+1)); err == nil {
		t.Error("too many certificates were looked at")
	}
}

// A renewed certificate is served without a restart, a half written one leaves
// the old one in use, and neither keeps the other half of the files from being
// taken up. Each problem is logged once.
func TestKeeperFollowsItsFiles(t *testing.T) {
	o, root := files(t)
	second := certtest.NewAuthority(t, "second")
	// Certificates are of the real time, and what is waited for is not.
	made := time.Now()
	o.Now = func() time.Time { return made }
	leaves := map[*certtest.Authority]*x509.Certificate{root: root.Client(t).Leaf, second: second.Client(t).Leaf}
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		changes := 0
		o.Log, o.Every, o.Changed = slog.New(slog.NewTextHandler(&log, nil)), time.Minute, func() { changes++ }
		k, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		reload := make(chan os.Signal)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- k.Run(ctx, reload) }()
		defer func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		serial := func() int64 {
			t.Helper()
			time.Sleep(2 * o.Every) // virtual
			synctest.Wait()
			c, err := k.Config().GetConfigForClient(&tls.ClientHelloInfo{})
			if err != nil {
				t.Fatal(err)
			}
			leaf, err := x509.ParseCertificate(c.Certificates[0].Certificate[0])
			if err != nil {
				t.Fatal(err)
			}
			return leaf.SerialNumber.Int64()
		}
		takes := func(a *certtest.Authority) bool { return k.Verify([]*x509.Certificate{leaves[a]}) == nil }
		if got := serial(); got != 1 || !takes(root) || takes(second) {
			t.Fatalf("serial %d", got)
		}
		write(t, o.Cert, []byte("half"))
		write(t, o.ClientCA, certtest.PEM(second.Cert))
		if got := serial(); got != 1 || takes(root) || !takes(second) {
			t.Errorf("serial %d while the file is half written, want the old 1 and the new authorities", got)
		}
		if n := strings.Count(log.String(), "not taken up"); n != 1 || !strings.Contains(log.String(), o.Cert) {
			t.Errorf("logged %d times:\n%s", n, log.String())
		}
		certtest.Write(t, filepath.Dir(o.Cert), 2)
		if got := serial(); got != 2 {
			t.Errorf("serial %d after a renewal, want 2", got)
		}
		if changes == 0 {
			t.Error("nobody was told of the new authorities")
		}
	})
}
