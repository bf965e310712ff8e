package gateway_test

import (
	"crypto/tls"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/certtest"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
	"github.com/parley-mesh/parley/internal/registry"
)

// TestClientCertificate: an agent that lets nobody in without a certificate is
// registered and called with the mesh's, which no other origin sees.
func TestClientCertificate(t *testing.T) {
	cert, key, pool := certtest.Write(t, t.TempDir(), 1)
	read := func(path string) string {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	m := parleytest.Start(t, parleytest.Options{})
	agent := parleytest.NewAgent(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(agent)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	url := server.URL + "/"
	agent.SetCard(parleytest.Card(url))

	if _, err := m.Admin.AddAgent(t.Context(), control.NewAgent{Name: "without", URL: url}); err == nil {
		t.Error("an agent that wants a certificate was registered without one")
	}
	added := m.Add(control.NewAgent{Name: "agent", URL: url, Auth: &control.NewAuth{
		Kind: registry.Certificate, Certificate: &control.NewCertificate{Chain: read(cert), Key: read(key), CA: read(cert)},
	}})
	if w := strings.Join(added.Warnings, "\n"); w != "" {
		t.Logf("warnings: %s", w)
	}
	agent.Answer(says("done"))
	for _, b := range bindings {
		reply, id := m.Caller("agent", b, m.Key(parley.PrincipalName(fresh("p")), "")).Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
		if reply.Err != nil {
			t.Fatalf("%s: %v\n%s", b, reply.Err, m.Log())
		}
		wantCall(t, m, id, "ok", "")
	}
	looked, err := m.Admin.RefreshAgent(t.Context(), "agent")
	if err != nil {
		t.Fatal(err)
	}
	if w := strings.Join(looked.Agent.Warnings, "\n"); !strings.Contains(w, "expires on") || !strings.Contains(w, "--client-cert") {
		t.Errorf("a certificate that ends within the hour is not told of: %q", w)
	}
	shown, err := m.Admin.Agent(t.Context(), "agent")
	if err != nil {
		t.Fatal(err)
	}
	if x := shown.Auth.Certificate; x == nil || !strings.Contains(x.Subject, "mesh under test") {
		t.Errorf("the certificate is shown as %+v", x)
	}
	if strings.Contains(m.Log(), "PRIVATE KEY") {
		t.Error("the log holds a private key")
	}
	// Another credential takes the place of the certificate, at once.
	if _, err := m.Admin.SetAuth(t.Context(), "agent", control.NewAuth{Kind: registry.Bearer, Secret: "x"}); err == nil {
		reply, _ := m.Caller("agent", a2a.JSONRPC, m.Key("bob", "")).Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
		if reply.Err == nil {
			t.Error("a certificate that was replaced is still shown")
		}
	}
}
