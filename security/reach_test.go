package security_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/app"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/netguardtest"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// hostile are addresses that only the mesh could reach, in the spellings that
// have fooled checks before.
var hostile = []string{
	"http://127.0.0.1:7402/", "https://127.0.0.1/", "http://localhost/", "http://[::1]/", "http://0.0.0.0/", "http://[::]/",
	"http://169.254.169.254/latest/meta-data/", "http://[fd00:ec2::254]/latest/", "http://[fe80::1]/",
	"http://10.0.0.1/", "https://192.168.1.1/", "http://172.16.0.1/", "http://100.64.0.1/", "https://[fc00::1]/",
	"http://[::ffff:127.0.0.1]/", "http://[::ffff:169.254.169.254]/", "http://[64:ff9b::7f00:1]/", "http://[2002:7f00:1::]/",
	"http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/", "http://127.1/",
	"https://metadata.example.com/", "https://rebind.example.com/", "http://public.example.com/",
	"file:///etc/passwd", "gopher://127.0.0.1:6379/_INFO", "unix:///var/run/docker.sock", "http://user:pw@127.0.0.1/", "javascript:alert(1)", "http://public.example.com@127.0.0.1/",
}

// TestServerSideRequestForgery: registering or looking at an agent makes the
// mesh connect to nothing that its operator has not opened.
func TestServerSideRequestForgery(t *testing.T) {
	var dialer netguardtest.Recorder
	dialer.Resolve("localhost", "127.0.0.1")
	dialer.Resolve("metadata.example.com", "169.254.169.254")
	dialer.Resolve("rebind.example.com", "10.0.0.7")
	dialer.Resolve("public.example.com", "93.184.216.34")
	for _, odd := range []string{"2130706433", "0x7f000001", "0177.0.0.1", "127.1"} {
		dialer.Spell(odd, "127.0.0.1")
	}
	m := parleytest.Start(t, parleytest.Options{
		Configure: func(c *config.Config) { c.Environment = parley.Prod }, // in dev, loopback is open
		App:       app.Options{NewDialer: dialer.NewDialer},
	})
	for _, address := range hostile {
		if seen, err := m.Admin.AddAgent(t.Context(), control.NewAgent{Name: "victim", URL: address}); err == nil {
			t.Errorf("add %s: %+v", address, seen.Agent)
		}
		if report, err := m.Admin.CheckCard(t.Context(), address); err == nil && report.CardURL != "" {
			t.Errorf("card %s: %+v", address, report)
		}
	}
	for _, to := range dialer.Permitted() {
		if to.Addr().String() != "93.184.216.34" || to.Port() != 443 {
			t.Errorf("the mesh connected to %s", to)
		}
	}
	if len(dialer.Refused()) == 0 {
		t.Error("nothing was refused: the recorder is not in place")
	}
}

// TestCardPointsInside: a public agent's card names an interface that only the
// mesh could reach, at registration and by a later change.
func TestCardPointsInside(t *testing.T) {
	var dialer netguardtest.Recorder
	agent := parleytest.NewAgent(t)
	dialer.StandIn("10.20.0.5:8080", listenerOf(t, agent))
	m := parleytest.Start(t, parleytest.Options{
		Configure: func(c *config.Config) { c.Environment = parley.Prod; allow(t, c, "10.20.0.5/32") },
		App:       app.Options{NewDialer: dialer.NewDialer},
	})
	const public = "http://10.20.0.5:8080/"
	for _, inside := range []string{"http://10.20.0.6:8080/", "http://169.254.169.254/", "http://127.0.0.1:7402/"} {
		agent.SetCard(parleytest.Card(inside))
		seen, err := m.Admin.AddAgent(t.Context(), control.NewAgent{Name: "pointing", URL: public, Environment: parley.Prod})
		if err == nil && seen.Agent.Status == "active" {
			t.Errorf("an agent whose interface is at %s is active", inside)
		}
		if err == nil {
			if err := m.Admin.RemoveAgent(t.Context(), "pointing", 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, to := range dialer.Permitted() {
		if to.String() != "10.20.0.5:8080" {
			t.Errorf("the mesh connected to %s", to)
		}
	}
}

// TestCredentialTheft: an agent moves its interface to another origin. The
// stored credential does not follow, neither at the refresh nor after an
// operator has approved the move, and no call goes there before that.
func TestCredentialTheft(t *testing.T) {
	const secret = "s3cret-for-the-first-origin"
	m := parleytest.Start(t, parleytest.Options{})
	agent := parleytest.NewAgent(t)
	m.Add(control.NewAgent{Name: "mover", URL: agent.URL, Auth: &control.NewAuth{Kind: "bearer", Secret: secret}})
	agent.Answer(yes)
	c := m.Caller("mover", a2a.JSONRPC, m.Key("alice", ""))
	if reply, _ := c.Do(t.Context(), a2a.SendMessage, parleytest.Message("m1", "x")); reply.Err != nil || agent.Last().Header.Get("Authorization") != "Bearer "+secret {
		t.Fatalf("%v; the agent was shown %q", reply.Err, agent.Last().Header.Get("Authorization"))
	}

	var asked atomic.Int64
	thief := parleytest.NewAgent(t)
	check := func(when string) {
		t.Helper()
		for _, s := range thief.Seen() {
			raw, err := json.Marshal(s.Header)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(raw), secret) || strings.Contains(s.Query, secret) {
				t.Errorf("%s the thief was shown the credential", when)
			}
		}
	}
	agent.SetCard(parleytest.Card(thief.URL))
	if _, err := m.Admin.RefreshAgent(t.Context(), "mover"); err != nil {
		t.Fatal(err)
	}
	check("at the refresh")
	thief.Serve(func(w http.ResponseWriter, r *http.Request) { asked.Add(1); http.Error(w, "thanks", http.StatusTeapot) })
	before := len(agent.Seen())
	if reply, _ := c.Do(t.Context(), a2a.SendMessage, parleytest.Message("m2", "x")); reply.Err != nil {
		t.Errorf("before the approval: %v", reply.Err)
	}
	if asked.Load() != 0 || len(agent.Seen()) != before+1 {
		t.Error("a call went to the new origin before an operator approved it")
	}
	if _, err := m.Admin.ApproveAgent(t.Context(), "mover", 0); err != nil {
		t.Fatal(err)
	}
	c.Do(t.Context(), a2a.SendMessage, parleytest.Message("m3", "x"))
	if _, err := m.Admin.RefreshAgent(t.Context(), "mover"); err != nil {
		t.Logf("refresh after the move: %v", err)
	}
	check("after the approval")
}

// TestRedirectStealsNothing: an agent answers calls with a redirect to another
// host. It is not followed, with or without the credential.
func TestRedirectStealsNothing(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	var asked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer other.Close()
	agent := parleytest.NewAgent(t)
	m.Add(control.NewAgent{Name: "agent", URL: agent.URL, Auth: &control.NewAuth{Kind: "bearer", Secret: "s3cret-s3cret"}})
	c := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
	for _, status := range []int{301, 302, 303, 307, 308} {
		agent.Serve(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, status) })
		reply, _ := c.Do(t.Context(), a2a.SendMessage, parleytest.Message("", "x"))
		if reply.Err == nil || strings.Contains(string(reply.Err.REST()), other.URL) || reply.Received.Get("Location") != "" {
			t.Errorf("%d: %s %v", status, reply.Result, reply.Err)
		}
	}
	if asked.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

func listenerOf(t *testing.T, agent *parleytest.Agent) net.Addr {
	t.Helper()
	addr, err := net.ResolveTCPAddr("tcp", strings.Trim(strings.TrimPrefix(agent.URL, "http://"), "/"))
	if err != nil {
		t.Fatal(err)
	}
	return addr
}
