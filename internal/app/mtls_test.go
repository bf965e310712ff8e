package app_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2agrpc"
	"github.com/parley-mesh/parley/internal/certtest"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/gateway"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
)

const workload = "spiffe://finance.example/ns/prod/sa/billing"

// door is a mesh that takes client certificates, and the authorities they may
// be of.
type door struct {
	*parleytest.Mesh
	dir                string
	root, intermediate *certtest.Authority
	server             *x509.CertPool
}

func openDoor(t *testing.T, change func(*config.Config)) *door {
	t.Helper()
	d := &door{dir: t.TempDir(), root: certtest.NewAuthority(t, "root")}
	d.intermediate = d.root.Intermediate(t, "intermediate")
	cert, key, pool := certtest.Write(t, d.dir, 1)
	d.server = pool
	d.write(t, "ca.pem", certtest.PEM(d.root.Cert))
	if err := os.Mkdir(filepath.Join(d.dir, "crl"), 0o700); err != nil {
		t.Fatal(err)
	}
	d.revoke(t)
	d.Mesh = parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) {
		c.TLS.Cert, c.TLS.Key, c.TLS.ClientCA, c.TLS.CRL = cert, key, filepath.Join(d.dir, "ca.pem"), filepath.Join(d.dir, "crl")
		c.TLS.Reload = 10 * time.Millisecond
		c.Auth.SPIFFE.TrustDomains = []string{"finance.example"}
		c.Auth.FailureBurst = 1000
		if change != nil {
			change(c)
		}
	}})
	ctx := t.Context()
	for _, n := range []struct {
		principal parley.PrincipalName
		roles     []parley.Role
		name      control.NewCertName
	}{
		{"billing", []parley.Role{parley.RoleViewer}, control.NewCertName{Kind: "spiffe", Name: workload}},
		{"laptop", []parley.Role{parley.RoleViewer}, control.NewCertName{Kind: "dns", Name: "laptop.finance.example"}},
	} {
		if _, err := d.Admin.CreatePrincipal(ctx, control.NewPrincipal{Name: n.principal, Roles: n.roles}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Admin.LinkCertName(ctx, n.principal, n.name); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// write replaces a file as a careful operator does: never half there.
func (d *door) write(t *testing.T, name string, content []byte) {
	t.Helper()
	path := filepath.Join(d.dir, name)
	if err := os.WriteFile(path+".tmp", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		t.Fatal(err)
	}
}

// revoke writes lists of the root and the intermediate that revoke these.
func (d *door) revoke(t *testing.T, revoked ...*x509.Certificate) {
	t.Helper()
	next := time.Now().Add(time.Hour)
	d.write(t, "intermediate.crl", d.intermediate.CRL(t, next, revoked...))
	d.write(t, "root.crl", d.root.CRL(t, next, revoked...))
	for _, name := range []string{"intermediate.crl", "root.crl"} {
		if err := os.Rename(filepath.Join(d.dir, name), filepath.Join(d.dir, "crl", name)); err != nil {
			t.Fatal(err)
		}
	}
}

// client connects anew for every request unless keep is set.
func (d *door) client(keep bool, certs ...tls.Certificate) *http.Client {
	return &http.Client{Timeout: parleytest.Patience, Transport: &http.Transport{
		DisableKeepAlives: !keep, ForceAttemptHTTP2: keep,
		TLSClientConfig: &tls.Config{RootCAs: d.server, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if len(certs) == 0 {
				return &tls.Certificate{}, nil
			}
			return &certs[0], nil // also one of another authority than the mesh asks for
		}},
	}}
}

type answered struct {
	status int
	body   string
	err    error // of the handshake
}

func (d *door) get(t *testing.T, c *http.Client, key string) answered {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", d.Ready.Control+"/api/v1/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("X-API-Key", key)
	}
	resp, err := c.Do(req)
	if err != nil {
		return answered{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answered{err: err}
	}
	return answered{resp.StatusCode, string(body), nil}
}

// TestClientCertificates shows the mesh good and hostile ones in real handshakes.
func TestClientCertificates(t *testing.T) {
	d := openDoor(t, nil)
	other := certtest.NewAuthority(t, "root") // of the same name, with another key
	good := certtest.SPIFFE(workload)
	revoked := d.intermediate.Client(t, good)
	burned := d.root.Intermediate(t, "burned")
	d.revoke(t, revoked.Leaf, burned.Cert)
	d.waitForRefusal(t, revoked)
	selfMade := certtest.NewAuthority(t, "client")
	unlisted := d.root.Intermediate(t, "unlisted")
	usage := func(u x509.KeyUsage) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.KeyUsage = u }
	}
	extended := func(u ...x509.ExtKeyUsage) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.ExtKeyUsage = u }
	}
	for _, tc := range []struct {
		name string
		cert tls.Certificate
		// says is in the answer of a request with 401; empty: it is let in; "handshake": it does not come so far.
		says string
	}{
		{"a SPIFFE id", d.intermediate.Client(t, good), ""},
		{"a DNS name", d.intermediate.Client(t, certtest.DNS("LAPTOP.finance.example")), ""},
		{"a DNS name beside others", d.intermediate.Client(t, certtest.DNS("x.finance.example", "laptop.finance.example")), ""},
		{"one of the root itself", d.root.Client(t, good), ""},
		{"any extended usage", d.intermediate.Client(t, good, extended(x509.ExtKeyUsageAny)), ""},

		{"of another authority", other.Client(t, good), "handshake"},
		{"of nobody", tls.Certificate{Certificate: [][]byte{selfMade.Cert.Raw}, PrivateKey: selfMade.Client(t).PrivateKey}, "handshake"},
		{"expired", d.intermediate.Client(t, good, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Second) }), "handshake"},
		{"not valid yet", d.intermediate.Client(t, good, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }), "handshake"},
		{"of an expired intermediate", d.root.Intermediate(t, "old", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Second) }).Client(t, good), "handshake"},
		{"for servers", d.intermediate.Client(t, good, extended(x509.ExtKeyUsageServerAuth)), "handshake"},
		{"without an extended usage", d.intermediate.Client(t, good, extended()), "handshake"},
		{"a key that signs nothing", d.intermediate.Client(t, good, usage(x509.KeyUsageKeyEncipherment)), "handshake"},
		{"a key that signs certificates", d.intermediate.Client(t, good, usage(x509.KeyUsageDigitalSignature|x509.KeyUsageCertSign)), "handshake"},
		{"an authority's", d.intermediate.Client(t, good, func(c *x509.Certificate) {
			c.IsCA, c.KeyUsage = true, x509.KeyUsageDigitalSignature|x509.KeyUsageCertSign
		}), "handshake"},
		{"revoked", revoked, "handshake"},
		{"of a revoked intermediate", burned.Client(t, good), "handshake"},
		{"of an intermediate without a list", unlisted.Client(t, good), "handshake"},
		{"of an intermediate that may not name it", d.root.Intermediate(t, "narrow", func(c *x509.Certificate) {
			c.PermittedDNSDomainsCritical, c.PermittedURIDomains = true, []string{"other.example"}
		}).Client(t, good), "handshake"},

		{"two URI names", d.intermediate.Client(t, good, certtest.SPIFFE("spiffe://finance.example/other")), "has 2 URI names"},
		{"a SPIFFE id beside another URI", d.intermediate.Client(t, good, certtest.SPIFFE("urn:x:y")), "has 2 URI names"},
		{"a foreign trust domain", d.intermediate.Client(t, certtest.SPIFFE("spiffe://other.example/ns/prod/sa/billing")), "trust domain other.example"},
		{"a trust domain alone", d.intermediate.Client(t, certtest.SPIFFE("spiffe://finance.example")), "not a workload"},
		{"a foreign SPIFFE id with a good DNS name", d.intermediate.Client(t, certtest.SPIFFE("spiffe://other.example/x"), certtest.DNS("laptop.finance.example")), "trust domain other.example"},
		{"a SPIFFE id with a port", d.intermediate.Client(t, certtest.SPIFFE("spiffe://finance.example:8443/x")), "is none"},
		{"a wildcard", d.intermediate.Client(t, certtest.DNS("*.finance.example")), "without a wildcard"},
		{"no name", d.intermediate.Client(t), "neither a SPIFFE id nor a DNS name"},
		{"a name that is linked to nobody", d.intermediate.Client(t, certtest.SPIFFE("spiffe://finance.example/ns/prod/sa/nobody")), "parley principal link NAME --spiffe spiffe://finance.example/ns/prod/sa/nobody"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := d.get(t, d.client(false, tc.cert), "")
			switch {
			case tc.says == "handshake":
				if got.err == nil {
					t.Errorf("the handshake came about: %d %s", got.status, got.body)
				}
			case got.err != nil:
				t.Errorf("no handshake: %v", got.err)
			case tc.says == "" && got.status != 200, tc.says != "" && (got.status != 401 || !strings.Contains(got.body, tc.says)):
				t.Errorf("%d %s", got.status, got.body)
			}
		})
	}
	if got := d.get(t, d.client(false), ""); got.status != 401 {
		t.Errorf("no certificate and no key: %+v", got)
	}
	status, err := d.Admin.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]int64{}
	for _, r := range status.AuthFailures.Reasons {
		counted[r.Reason] = r.Count
	}
	if counted["certificate"] < 14 || counted["certificate_name"] != 8 || counted["certificate_unlinked"] != 1 {
		t.Errorf("failures are counted as %v", counted)
	}
}

// waitForRefusal waits until the mesh has taken up that a certificate is no
// longer good. Every new connection asks anew.
func (d *door) waitForRefusal(t *testing.T, cert tls.Certificate) {
	t.Helper()
	d.waitUntil(t, func() bool { return d.get(t, d.client(false, cert), "").err != nil })
}

func (d *door) waitUntil(t *testing.T, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), parleytest.Patience)
	defer cancel()
	for !ok() {
		if ctx.Err() != nil {
			t.Fatalf("the files were not taken up\n%s", d.Log())
		}
	}
}

// A key beside a certificate must be of the same principal; a certificate that
// proves nobody leaves it to the key.
func TestCertificateAndKey(t *testing.T) {
	d := openDoor(t, nil)
	cert := d.intermediate.Client(t, certtest.SPIFFE(workload))
	unlinked := d.intermediate.Client(t, certtest.DNS("sidecar.finance.example"))
	foreign := d.intermediate.Client(t, certtest.SPIFFE("spiffe://other.example/x"))
	same, another := d.NewKey(control.NewKey{Principal: "billing"}).Text, d.NewKey(control.NewKey{Principal: "laptop"}).Text
	for _, tc := range []struct {
		name string
		cert tls.Certificate
		key  string
		want int
	}{
		{"both of one", cert, same, 200},
		{"of two", cert, another, 401},
		{"a wrong key", cert, "pk_wrong", 401},
		{"an unlinked certificate", unlinked, another, 200},
		{"an unlinked certificate and a wrong key", unlinked, "pk_wrong", 401},
		{"a certificate that may not be used", foreign, another, 401},
	} {
		if got := d.get(t, d.client(false, tc.cert), tc.key); got.status != tc.want {
			t.Errorf("%s: %d %v %s", tc.name, got.status, got.err, got.body)
		}
	}
	if _, err := d.Admin.FreezePrincipal(t.Context(), "billing", "x"); err != nil {
		t.Fatal(err)
	}
	if got := d.get(t, d.client(false, cert), ""); got.status != 403 || !strings.Contains(got.body, "principal_frozen") {
		t.Errorf("the certificate of a frozen principal: %d %s", got.status, got.body)
	}
	if err := d.Admin.UnlinkCertName(t.Context(), "laptop", control.NewCertName{Kind: "dns", Name: "laptop.finance.example"}); err != nil {
		t.Fatal(err)
	}
	if got := d.get(t, d.client(false, d.intermediate.Client(t, certtest.DNS("laptop.finance.example"))), ""); got.status != 401 {
		t.Errorf("after the name was unlinked: %d %s", got.status, got.body)
	}
}

// What is revoked is out at once: on connections that are open, and for clients
// that resume a connection by its ticket.
func TestRevocationReachesOpenConnectionsAndTickets(t *testing.T) {
	d := openDoor(t, nil)
	cert := d.intermediate.Client(t, certtest.SPIFFE(workload))
	open := d.client(true, cert)
	if got := d.get(t, open, ""); got.status != 200 {
		t.Fatalf("before: %+v", got)
	}
	tickets := tls.NewLRUClientSessionCache(4)
	connect := func() (resumed bool, err error) {
		conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: d.server, Certificates: []tls.Certificate{cert}, ClientSessionCache: tickets, ServerName: "127.0.0.1"}}).
			DialContext(t.Context(), "tcp", strings.TrimPrefix(d.Ready.Listen, "https://"))
		if err != nil {
			return false, err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(parleytest.Patience)); err != nil {
			return false, err
		}
		// In TLS 1.3 the ticket, and a refusal, come with the first bytes.
		if _, err := io.WriteString(conn, "GET /api/v1/status HTTP/1.1\r\nHost: mesh\r\nConnection: close\r\n\r\n"); err != nil {
			return false, err
		}
		answer, err := io.ReadAll(conn)
		if err == nil && !bytes.HasPrefix(answer, []byte("HTTP/1.1 200")) {
			err = errors.New(string(answer))
		}
		return conn.(*tls.Conn).ConnectionState().DidResume, err
	}
	if _, err := connect(); err != nil {
		t.Fatal(err)
	}
	if resumed, err := connect(); err != nil || !resumed {
		t.Fatalf("the handshake was not resumed (%v, %v): this test would prove nothing", resumed, err)
	}
	d.revoke(t, cert.Leaf)
	d.waitForRefusal(t, cert)
	if _, err := connect(); err == nil {
		t.Error("a revoked certificate came in by its ticket")
	}
	d.waitUntil(t, func() bool { return d.get(t, open, "").status == 401 })
}

// Certificates, authorities and lists change while callers come and go, and
// nobody is turned away for it; broken files change nothing and are named.
func TestReloadUnderLoad(t *testing.T) {
	d := openDoor(t, nil)
	cert := d.intermediate.Client(t, certtest.SPIFFE(workload))
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for ctx.Err() == nil {
				if got := d.get(t, d.client(false, cert), ""); got.status != 200 {
					t.Errorf("turned away: %+v", got)
					return
				}
			}
		})
	}
	second := certtest.NewAuthority(t, "second")
	late := second.Client(t, certtest.DNS("laptop.finance.example"))
	if got := d.get(t, d.client(false, late), ""); got.err == nil {
		t.Errorf("an authority that is not there yet: %+v", got)
	}
	for _, broken := range []struct{ file, content, says string }{
		{"ca.pem", "not PEM", "ca.pem"},
		{"cert.pem", "not PEM", "cert.pem"},
		{"crl/root.crl", "not a list", "root.crl"},
	} {
		path := filepath.Join(d.dir, broken.file)
		old, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		d.write(t, broken.file, []byte(broken.content))
		d.waitUntil(t, func() bool {
			return strings.Contains(d.Log(), "not taken up") && strings.Contains(d.Log(), broken.says)
		})
		d.write(t, broken.file, old)
	}
	d.write(t, "crl/second.crl", second.CRL(t, time.Now().Add(time.Hour)))
	d.write(t, "ca.pem", certtest.PEM(d.root.Cert, second.Cert))
	d.waitUntil(t, func() bool { return d.get(t, d.client(false, late), "").status == 200 })
	stop()
	group.Wait()
}

// A list that is out of date, or of somebody else, tells nothing: strictly that
// is a refusal.
func TestListsThatTellNothing(t *testing.T) {
	for _, tc := range []struct {
		name    string
		lenient bool
		list    func(d *door, t *testing.T, cert tls.Certificate) []byte
		in      bool
	}{
		{"expired", false, func(d *door, t *testing.T, _ tls.Certificate) []byte {
			return d.intermediate.CRL(t, time.Now().Add(-time.Minute))
		}, false},
		{"expired, leniently", true, func(d *door, t *testing.T, _ tls.Certificate) []byte {
			return d.intermediate.CRL(t, time.Now().Add(-time.Minute))
		}, true},
		{"expired and revoking, leniently", true, func(d *door, t *testing.T, cert tls.Certificate) []byte {
			return d.intermediate.CRL(t, time.Now().Add(-time.Minute), cert.Leaf)
		}, false},
		{"from the future", false, func(d *door, t *testing.T, _ tls.Certificate) []byte {
			return d.intermediate.SpecialCRL(t, func(l *x509.RevocationList) {
				l.ThisUpdate, l.NextUpdate = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
			})
		}, false},
		{"signed by somebody else of that name", false, func(_ *door, t *testing.T, _ tls.Certificate) []byte {
			return certtest.NewAuthority(t, "intermediate").CRL(t, time.Now().Add(time.Hour))
		}, false},
		{"revoking, signed by somebody else, leniently", true, func(_ *door, t *testing.T, cert tls.Certificate) []byte {
			return certtest.NewAuthority(t, "intermediate").CRL(t, time.Now().Add(time.Hour), cert.Leaf)
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var d *door
			var cert tls.Certificate
			d = openDoor(t, func(c *config.Config) {
				if tc.lenient {
					c.TLS.CRLCheck = config.CRLLenient
				}
			})
			cert = d.intermediate.Client(t, certtest.SPIFFE(workload))
			d.write(t, "crl/intermediate.crl", tc.list(d, t, cert))
			d.waitUntil(t, func() bool { return strings.Contains(d.Log(), "TLS files read again") })
			if got := d.get(t, d.client(false, cert), ""); (got.status == 200) != tc.in {
				t.Errorf("let in: %+v, want %t", got, tc.in)
			}
		})
	}
}

// The gRPC listener takes the same certificates.
func TestClientCertificatesOverGRPC(t *testing.T) {
	d := openDoor(t, nil)
	d.Agent("echo")
	for _, tc := range []struct {
		name string
		cert tls.Certificate
		want a2a.Reason // empty: no connection
	}{
		{"linked", d.intermediate.Client(t, certtest.SPIFFE(workload)), a2a.ReasonTaskNotFound},
		{"not linked", d.intermediate.Client(t, certtest.DNS("x.example.com")), a2a.ReasonUnauthenticated},
		{"of another authority", certtest.NewAuthority(t, "root").Client(t, certtest.SPIFFE(workload)), ""},
	} {
		dial := (&net.Dialer{}).DialContext
		pool := a2agrpc.NewPool(a2agrpc.PoolOptions{DialTLS: dial, DialPlain: dial, TLS: &tls.Config{
			RootCAs:              d.server,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &tc.cert, nil },
		}})
		t.Cleanup(func() { pool.Close() })
		conn := &a2a.Conn{
			Client:   &a2a.Client{GRPC: &a2agrpc.Client{Pool: pool}},
			Endpoint: a2a.Endpoint{URL: "https://" + d.Ready.GRPC, Tenant: gateway.TenantPrefix + "echo", Binding: a2a.GRPC, Version: a2a.V10},
		}
		ctx, cancel := context.WithTimeout(t.Context(), parleytest.Patience)
		_, err := conn.GetTask(ctx, a2a.GetTaskRequest{ID: "t"})
		cancel()
		got := a2a.Reason("")
		if e, ok := errors.AsType[*a2a.Error](err); ok {
			got = e.Reason
		}
		if err == nil || got != tc.want {
			t.Errorf("%s: %v (%s), want %s", tc.name, err, got, tc.want)
		}
	}
}

// Where certificates are required nobody connects without one, and cards tell
// that they are taken.
func TestCertificatesRequiredOnTheEdge(t *testing.T) {
	d := openDoor(t, func(c *config.Config) { c.TLS.ClientAuth = config.ClientAuthRequire })
	if got := d.get(t, d.client(false), d.NewKey(control.NewKey{Principal: "billing"}).Text); got.err == nil {
		t.Errorf("a key alone: %+v", got)
	}
	d.Agent("echo")
	client := d.client(true, d.intermediate.Client(t, certtest.SPIFFE(workload)))
	call := func(method, path, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, d.Ready.Listen+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("A2A-Version", "1.0")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	status, card := call("GET", "/agents/echo/.well-known/agent-card.json", "")
	var shown struct {
		SecuritySchemes map[string]map[string]any
	}
	if err := json.Unmarshal([]byte(card), &shown); status != 200 || err != nil || shown.SecuritySchemes["mtls"]["mtlsSecurityScheme"] == nil {
		t.Errorf("card %d (%v): %s", status, err, card)
	}
	status, text := call("POST", "/agents/echo/message:send", `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hello"}]}}`)
	if calls := d.Calls(control.CallFilter{Caller: "billing"}); len(calls) != 1 || calls[0].AgentBinding == "" {
		t.Errorf("a call by certificate did not reach the agent: %d %s; on record %+v", status, text, calls)
	}
}
