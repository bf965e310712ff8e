package app_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

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

func TestGRPCSpeaksTLSOnly(t *testing.T) {
	cert, key, pool := certtest.Write(t, t.TempDir(), 1)
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) { c.TLS = config.TLS{Cert: cert, Key: key} }})
	for _, test := range []struct {
		name        string
		credentials credentials.TransportCredentials
		works       bool
	}{
		{"trusted", credentials.NewTLS(&tls.Config{RootCAs: pool}), true},
		{"not trusted", credentials.NewTLS(&tls.Config{RootCAs: x509.NewCertPool()}), false},
		{"without TLS", insecure.NewCredentials(), false},
	} {
		conn, err := grpc.NewClient("passthrough:///"+m.Ready.GRPC, grpc.WithTransportCredentials(test.credentials))
		if err != nil {
			t.Fatal(err)
		}
		_, err = healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
		if (err == nil) != test.works {
			t.Errorf("%s: %v", test.name, err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestWithoutGRPC: no listener, and no card that names one.
func TestWithoutGRPC(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) { c.GRPCListen = "" }})
	m.Agent("echo")
	resp, err := http.Get(m.URL("echo") + ".well-known/agent-card.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	card, err := io.ReadAll(resp.Body)
	if err != nil || m.Ready.GRPC != "" || strings.Contains(string(card), "GRPC") {
		t.Errorf("ready %+v, card %s, %v", m.Ready, card, err)
	}
}
