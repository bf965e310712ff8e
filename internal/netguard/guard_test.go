package netguard_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/parley-mesh/parley/internal/netguard"
	"github.com/parley-mesh/parley/internal/netguardtest"
)

var equatePrefix = cmpopts.EquateComparable(netip.Prefix{}, netip.AddrPort{})

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// platformHost is the publicly numbered address of a cloud platform's host,
// which the default configuration denies.
const platformHost = "168.63.129.16"

// hostile lists hosts that must never be connected to. resolves is what a
// resolver makes of the host: for the odd spellings of loopback, which the C
// library's resolver understands, and for names an attacker controls.
var hostile = []struct {
	name, host string
	resolves   string
}{
	{"loopback", "127.0.0.1", ""},
	{"loopback elsewhere", "127.255.255.254", ""},
	{"this host", "0.0.0.0", ""},
	{"this network", "0.1.2.3", ""},
	{"private 10", "10.0.0.1", ""},
	{"private 172", "172.16.0.1", ""},
	{"private 192", "192.168.1.1", ""},
	{"carrier NAT", "100.64.0.1", ""},
	{"link local, cloud metadata", "169.254.169.254", ""},
	{"protocol assignments", "192.0.0.8", ""},
	{"documentation 1", "192.0.2.1", ""},
	{"documentation 2", "198.51.100.1", ""},
	{"documentation 3", "203.0.113.1", ""},
	{"6to4 relay", "192.88.99.1", ""},
	{"benchmarks", "198.18.0.1", ""},
	{"multicast", "224.0.0.1", ""},
	{"reserved", "240.0.0.1", ""},
	{"broadcast", "255.255.255.255", ""},
	{"cloud platform host", platformHost, ""},
	{"IPv6 loopback", "::1", ""},
	{"IPv6 unspecified", "::", ""},
	{"IPv4-mapped loopback", "::ffff:127.0.0.1", ""},
	{"IPv4-mapped private", "::ffff:10.0.0.1", ""},
	{"IPv4-mapped metadata in hex", "::ffff:a9fe:a9fe", ""},
	{"IPv4-compatible loopback", "::7f00:1", ""},
	{"NAT64 of loopback", "64:ff9b::7f00:1", ""},
	{"local NAT64", "64:ff9b:1::a00:1", ""},
	{"6to4 of loopback", "2002:7f00:1::", ""},
	{"Teredo", "2001::1", ""},
	{"discard only", "100::1", ""},
	{"IPv6 documentation", "2001:db8::1", ""},
	{"IPv6 documentation 2", "3fff::1", ""},
	{"segment routing", "5f00::1", ""},
	{"unique local", "fd00::1", ""},
	{"link local", "fe80::1", ""},
	{"site local", "fec0::1", ""},
	{"IPv6 multicast", "ff02::1", ""},
	{"cloud metadata over IPv6", "fd00:ec2::254", ""},
	{"decimal", "2130706433", "127.0.0.1"},
	{"hexadecimal", "0x7f000001", "127.0.0.1"},
	{"octal", "0177.0.0.1", "127.0.0.1"},
	{"short", "127.1", "127.0.0.1"},
	{"localhost", "localhost.attacker.example", "127.0.0.1"},
	{"name of a private address", "intranet.attacker.example", "10.0.0.1"},
	{"name of a mapped address", "mapped.attacker.example", "::ffff:127.0.0.1"},
	{"name of a NAT64 address", "nat64.attacker.example", "64:ff9b::a9fe:a9fe"},
	{"name with a trailing dot", "dot.attacker.example.", "127.0.0.1"},
}

func TestHostileAddresses(t *testing.T) {
	clients := map[string]func(*netguard.Guard, string) error{
		"fetch": func(g *netguard.Guard, url string) error {
			_, err := g.FetchClient(netguard.FetchOptions{}).Fetch(t.Context(), url, netguard.Request{})
			return err
		},
		"agent": func(g *netguard.Guard, url string) error {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
			if err != nil {
				return err
			}
			resp, err := g.AgentTransport(netguard.TransportOptions{}).RoundTrip(req)
			if err == nil {
				err = errors.Join(errors.New("answered"), resp.Body.Close())
			}
			return err
		},
	}
	for _, h := range hostile {
		for _, scheme := range []string{"https", "http"} {
			for client, ask := range clients {
				t.Run(h.name+"/"+scheme+"/"+client, func(t *testing.T) {
					recorder := &netguardtest.Recorder{}
					switch {
					case h.resolves == "":
					case strings.Contains(h.host, "attacker"):
						recorder.Resolve(strings.TrimSuffix(h.host, "."), h.resolves)
					default:
						recorder.Spell(h.host, h.resolves)
					}
					g := netguard.New(netguard.Options{Deny: prefixes(platformHost + "/32"), NewDialer: recorder.NewDialer})
					url := scheme + "://" + bracket(h.host) + "/.well-known/agent-card.json"
					err := ask(g, url)
					var refused *netguard.RefusedError
					if !errors.As(err, &refused) || netguard.ReasonOf(err) != netguard.ReasonRefused {
						t.Errorf("%s: got %v, want a refusal", url, err)
					}
					if p := recorder.Permitted(); len(p) != 0 {
						t.Errorf("%s: the guard let %v through", url, p)
					}
					if len(recorder.Refused()) == 0 {
						t.Errorf("%s: the guard was never asked", url)
					}
				})
			}
		}
	}
}

func bracket(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// TestRebinding is the attack on guards that check first and resolve again to
// connect: the first answer is public, the second is not.
func TestRebinding(t *testing.T) {
	recorder := &netguardtest.Recorder{}
	recorder.Resolve("rebind.attacker.example", "1.1.1.1")
	recorder.Resolve("rebind.attacker.example", "127.0.0.1")
	g := netguard.New(netguard.Options{NewDialer: recorder.NewDialer})
	client := g.FetchClient(netguard.FetchOptions{})

	_, err := client.Fetch(t.Context(), "https://rebind.attacker.example/", netguard.Request{})
	if !errors.Is(err, netguardtest.ErrNoServer) {
		t.Fatalf("first fetch: got %v, want the public address to be dialled", err)
	}
	if n := recorder.Lookups("rebind.attacker.example"); n != 1 {
		t.Errorf("the name was looked up %d times for one connection, want 1", n)
	}
	_, err = client.Fetch(t.Context(), "https://rebind.attacker.example/", netguard.Request{})
	if netguard.ReasonOf(err) != netguard.ReasonRefused {
		t.Errorf("second fetch: got %v, want a refusal", err)
	}
	want := []netip.AddrPort{netip.MustParseAddrPort("1.1.1.1:443")}
	if diff := cmp.Diff(want, recorder.Permitted(), equatePrefix); diff != "" {
		t.Errorf("permitted (-want +got):\n%s", diff)
	}
}

// TestMixedAnswer has a public and a private address under one name: only the
// public one may be tried.
func TestMixedAnswer(t *testing.T) {
	recorder := &netguardtest.Recorder{}
	recorder.Resolve("mixed.attacker.example", "10.0.0.1", "1.1.1.1", "fd00::1", "2606:4700:4700::1111")
	g := netguard.New(netguard.Options{NewDialer: recorder.NewDialer})
	_, err := g.FetchClient(netguard.FetchOptions{}).Fetch(t.Context(), "https://mixed.attacker.example/", netguard.Request{})
	if err == nil {
		t.Fatal("fetched from nowhere")
	}
	for _, addr := range recorder.Permitted() {
		if addr.Addr().IsPrivate() {
			t.Errorf("%s was let through", addr)
		}
	}
	if len(recorder.Permitted()) == 0 {
		t.Error("no public address was tried")
	}
}

// TestAllowed checks what is let through, with which client and scheme.
func TestAllowed(t *testing.T) {
	const no, yes = false, true
	for _, test := range []struct {
		url         string
		fetch, call bool
	}{
		{"https://1.1.1.1/", yes, yes},
		{"https://[2606:4700:4700::1111]/", yes, yes},
		{"https://1.1.1.1:8443/", no, yes},
		{"http://1.1.1.1/", no, no},
		{"http://1.1.1.1:443/", no, no},
		{"https://10.1.2.3/", yes, yes},
		{"http://10.1.2.3/", yes, yes},
		{"http://10.1.2.3:9999/", yes, yes},
		{"http://[fd12::1]:80/", yes, yes},
		{"http://[::ffff:10.1.2.3]/", yes, yes},
		{"https://10.2.0.1/", no, no},
		{"https://10.1.99.1/", no, no},
		{"https://9.9.9.9/", no, no},
	} {
		recorder := &netguardtest.Recorder{}
		g := netguard.New(netguard.Options{
			Allow:     prefixes("10.1.0.0/16", "fd12::/16"),
			Deny:      prefixes("10.1.99.0/24", "9.9.9.9/32"),
			NewDialer: recorder.NewDialer,
		})
		_, err := g.FetchClient(netguard.FetchOptions{}).Fetch(t.Context(), test.url, netguard.Request{})
		if got := errors.Is(err, netguardtest.ErrNoServer); got != test.fetch {
			t.Errorf("fetch %s: let through %t, want %t (%v)", test.url, got, test.fetch, err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, test.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := g.AgentTransport(netguard.TransportOptions{}).RoundTrip(req)
		if err == nil {
			resp.Body.Close()
		}
		if got := errors.Is(err, netguardtest.ErrNoServer); got != test.call {
			t.Errorf("call %s: let through %t, want %t (%v)", test.url, got, test.call, err)
		}
		if got := g.CheckURL(req.URL) == nil; got != test.call {
			t.Errorf("check %s: allowed %t, want %t", test.url, got, test.call)
		}
	}
}

// TestRefusalNamesTheFix checks that the message can be acted upon.
func TestRefusalNamesTheFix(t *testing.T) {
	recorder := &netguardtest.Recorder{}
	recorder.Resolve("agent.internal", "10.0.0.5")
	g := netguard.New(netguard.Options{Deny: prefixes("9.9.9.0/24"), NewDialer: recorder.NewDialer})
	client := g.FetchClient(netguard.FetchOptions{})
	for url, want := range map[string]string{
		"http://agent.internal:8080/x?key=1": "http://agent.internal:8080/x: not connected: 10.0.0.5:8080 is not a public address: if it is yours, add 10.0.0.5/32 to network.allow, or start with --allow-network 10.0.0.5/32",
		"http://1.1.1.1/":                    "http://1.1.1.1/: not connected: 1.1.1.1:80 would be reached over plain http, which is only for addresses inside network.allow: use https; if it is yours, add 1.1.1.1/32 to network.allow, or start with --allow-network 1.1.1.1/32",
		"https://1.1.1.1:8443/":              "https://1.1.1.1:8443/: not connected: 1.1.1.1:8443 is a public address, where fetches use port 443 only: if it is yours, add 1.1.1.1/32 to network.allow, or start with --allow-network 1.1.1.1/32",
		"https://9.9.9.9/":                   "https://9.9.9.9/: not connected: 9.9.9.9:443 is inside network.deny: take the range out of network.deny if it should be reached",
		"https://[fd00::5]/":                 "https://[fd00::5]/: not connected: [fd00::5]:443 is not a public address: if it is yours, add fd00::5/128 to network.allow, or start with --allow-network fd00::5/128",
	} {
		_, err := client.Fetch(t.Context(), url, netguard.Request{})
		if err == nil || err.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", url, err, want)
		}
	}
}

// TestRealDialerAsksTheGuard uses the production dialer: without an exception it
// must not reach a server on this machine, and with one it must.
func TestRealDialerAsksTheGuard(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer server.Close()

	closed := netguard.New(netguard.Options{}).FetchClient(netguard.FetchOptions{})
	if _, err := closed.Fetch(t.Context(), server.URL, netguard.Request{}); netguard.ReasonOf(err) != netguard.ReasonRefused {
		t.Errorf("without an exception: got %v, want a refusal", err)
	}
	if asked.Load() != 0 {
		t.Error("without an exception the server was asked")
	}
	open := netguard.New(netguard.Options{Allow: prefixes("127.0.0.0/8")}).FetchClient(netguard.FetchOptions{})
	if _, err := open.Fetch(t.Context(), server.URL, netguard.Request{}); err != nil {
		t.Errorf("with an exception: %v", err)
	}
	if asked.Load() != 1 {
		t.Error("with an exception the server was not asked")
	}
}

// TestMain runs all tests in an environment that names a proxy, which must not
// be used: behind it the guard would see the proxy's address only. Nothing
// listens there. net/http reads the variables once in a process.
func TestMain(m *testing.M) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY"} {
		if err := os.Setenv(name, "http://127.0.0.1:1"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func TestAllowedAddresses(t *testing.T) {
	g := netguard.New(netguard.Options{Allow: prefixes("10.0.0.0/8"), Deny: prefixes("10.9.0.0/16")})
	for addr, want := range map[string]bool{"10.1.1.1": true, "::ffff:10.1.1.1": true, "10.9.1.1": false, "1.1.1.1": false, "fd00::1": false} {
		if got := g.Allowed(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: got %t, want %t", addr, got, want)
		}
	}
}

func TestControlTakesTCPOnly(t *testing.T) {
	var control netguard.Control
	g := netguard.New(netguard.Options{Allow: prefixes("127.0.0.0/8"), NewDialer: func(c netguard.Control) netguard.Dialer {
		control = c
		return &net.Dialer{}
	}})
	g.FetchClient(netguard.FetchOptions{})
	for network, want := range map[string]bool{"tcp4": true, "tcp6": true, "tcp": false, "udp4": false, "unix": false, "ip4": false} {
		if got := control(t.Context(), network, "127.0.0.1:80", nil) == nil; got != want {
			t.Errorf("%s: let through %t, want %t", network, got, want)
		}
	}
	if control(t.Context(), "tcp4", "/run/x.sock", nil) == nil {
		t.Error("a path was let through")
	}
}
