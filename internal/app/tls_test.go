package app_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/certtest"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/parleytest"
)

func TestEdgeSpeaksTLSOnly(t *testing.T) {
	cert, key, pool := certtest.Write(t, t.TempDir(), 1)
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) { c.TLS = config.TLS{Cert: cert, Key: key} }})
	if !strings.HasPrefix(m.Ready.Listen, "https://") || !strings.HasPrefix(m.Ready.Public, "https://") || !strings.HasPrefix(m.Ready.Control, "https://") {
		t.Errorf("addresses %+v, want https", m.Ready)
	}
	for _, test := range []struct {
		name   string
		config *tls.Config
		works  bool
	}{
		{"trusted", &tls.Config{RootCAs: pool}, true},
		{"not trusted", &tls.Config{RootCAs: x509.NewCertPool()}, false},
		{"old version", &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}, false},
	} {
		transport := &http.Transport{TLSClientConfig: test.config}
		resp, err := (&http.Client{Transport: transport}).Get(m.Ready.Listen + "/agents/nobody/.well-known/agent-card.json")
		if err == nil {
			resp.Body.Close()
		}
		if (err == nil) != test.works {
			t.Errorf("%s: %v", test.name, err)
		}
		transport.CloseIdleConnections()
	}
	resp, err := http.Get("http" + strings.TrimPrefix(m.Ready.Listen, "https") + "/agents/nobody/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("plain HTTP on the TLS port is answered %d, want 400", resp.StatusCode)
	}
}
