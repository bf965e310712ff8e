package conformance

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/app"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
)

// meshes are the running meshes that the rows go through: one of each kind, each
// started when it is first needed.
type meshes struct {
	t    *testing.T // of the whole run
	mu   sync.Mutex
	kept map[kind]*mesh
}

// kind is how a mesh is set up.
type kind struct{ strict, tls, tight, scoped, mute, hasty bool }

// tightBurst is how many requests a tight mesh takes of anybody at once.
const tightBurst = 12

// How a hasty mesh delivers. A receiver that answers at once does so within
// hastyTimeout on a busy machine, or is asked again.
const (
	hastyTimeout = 2 * time.Second
	hastyRetry   = 40 * time.Millisecond
)

// mesh is a running mesh with its callers.
type mesh struct {
	control              *control.Client
	public, grpc         string
	alice, bob, outsider string
	log                  *logBuffer
	agents               int
	issuer               *issuer // of the kind scoped
}

// agentToken is what the agents behind a mesh ask of it. No caller knows it.
const agentToken = "agent-token-5e1d"

// through reaches an agent that speaks one binding through a mesh, as a caller
// that speaks the same or another.
func (m *meshes) through(caller, agent a2a.Binding) Side {
	return Side{Name: fmt.Sprintf("through/%s_to_%s", caller, agent), Caller: caller, Open: func(t *testing.T, v Variant) *Target {
		opt := v.Agent
		opt.Bindings = []a2a.Binding{agent}
		opt.Credentials = map[string]string{"Bearer " + agentToken: "mesh"}
		behind, url := a2atest.Start(t, opt)
		return m.get(kind{strict: v.Strict, tls: v.TLS, mute: v.Mute, hasty: v.Hasty}).register(t, behind, url)
	}}
}

func (m *meshes) get(k kind) *mesh {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil {
		m.kept = map[kind]*mesh{}
	}
	if m.kept[k] == nil {
		m.kept[k] = startMesh(m.t, k)
	}
	return m.kept[k]
}

func startMesh(t *testing.T, k kind) *mesh {
	t.Helper()
	// Not t.TempDir: its names are too long for the socket in it.
	dir, err := os.MkdirTemp("", "parley")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cfg := config.Default()
	cfg.Data, cfg.Listen, cfg.GRPCListen, cfg.OpsListen, cfg.A2A.StrictVersion, cfg.Log.Level = dir, "127.0.0.1:0", "127.0.0.1:0", "", k.strict, config.LogDebug
	cfg.Push.Relay = !k.mute
	if k.hasty {
		cfg.Push.Timeout, cfg.Push.RetryFirst = hastyTimeout, hastyRetry
	}
	if k.tls {
		cfg.TLS.Cert, cfg.TLS.Key = writeCertificate(t, dir)
	}
	// The rows fail to authenticate more often than any client should.
	cfg.Auth.FailuresPerMinute, cfg.Auth.FailureBurst = 60_000, 10_000
	if k.tight { // one a minute or second after the first
		cfg.Auth.FailuresPerMinute, cfg.Auth.FailureBurst = 1, tightBurst
		cfg.Limits.RatePerPrincipal, cfg.Limits.BurstPerPrincipal = 1, tightBurst
		cfg.Limits.RatePerAddress, cfg.Limits.BurstPerAddress = 1, tightBurst
	}
	m := &mesh{log: new(logBuffer)}
	if k.scoped {
		m.issuer = newIssuer(t)
		cfg.Auth.Issuers = []config.Issuer{m.issuer.configured()}
	}
	a, err := app.Open(t.Context(), cfg, app.Options{LogTo: m.log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	stopped := make(chan error, 1)
	go func() { stopped <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-stopped; err != nil {
			t.Errorf("the mesh did not stop cleanly: %v\n%s", err, m.log)
		}
	})
	m.public, m.grpc = a.Ready().Public, a.Ready().GRPC
	m.control = control.NewSocketClient(a.Ready().Socket)
	t.Cleanup(m.control.Close)
	m.alice, m.bob = m.caller(t, "alice", ""), m.caller(t, "bob", "")
	if _, err := m.control.CreateOwner(t.Context(), control.NewOwner{Name: "elsewhere"}); err != nil {
		t.Fatal(err)
	}
	m.outsider = m.caller(t, "outsider", "elsewhere")
	return m
}

// caller makes a principal and returns the Authorization value it calls with.
func (m *mesh) caller(t *testing.T, name parley.PrincipalName, owner parley.OwnerName) string {
	t.Helper()
	if _, err := m.control.CreatePrincipal(t.Context(), control.NewPrincipal{Name: name, Owner: owner}); err != nil {
		t.Fatal(err)
	}
	key, err := m.control.CreateKey(t.Context(), control.NewKey{Principal: name})
	if err != nil {
		t.Fatal(err)
	}
	return "Bearer " + key.Text
}

// register puts an agent behind the mesh, under a name of its own.
func (m *mesh) register(t *testing.T, behind *a2atest.Agent, url string) *Target {
	t.Helper()
	m.agents++
	name := parley.AgentName(fmt.Sprintf("reference-%d", m.agents))
	auth := &control.NewAuth{Kind: "bearer", Secret: agentToken}
	if address := behind.Address(); address != "" {
		auth.Origin = "http://" + address // another one than the card's
	}
	added, err := m.control.AddAgent(t.Context(), control.NewAgent{Name: name, URL: url, Auth: auth})
	if err != nil || added.Agent.Status != "active" {
		t.Fatalf("register the agent: %v, %+v", err, added)
	}
	return &Target{Agent: behind, URL: m.public + "/agents/" + string(name), GRPC: m.grpc, Tenant: "agents." + string(name), Alice: m.alice, Bob: m.bob, Outsider: m.outsider, Log: m.log.String, Mesh: m, Name: name, Home: url}
}

// writeCertificate makes a certificate for the loopback address, which nobody
// trusts, and returns its files.
func writeCertificate(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	public, err := x509.CreateCertificate(rand.Reader, form, form, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: public}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}
