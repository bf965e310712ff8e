package netguard_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/netguard"
)

// A webhook at a hostile address is refused when it is registered, without a
// look into DNS and without a packet.
func TestCheckWebhookHostile(t *testing.T) {
	dialled := netguard.Options{NewDialer: func(netguard.Control) netguard.Dialer { return noDialer{t} }}
	g := netguard.New(dialled)
	refused := 0
	for _, test := range hostile {
		if strings.Contains(test.host, ".example") {
			continue // a name: it is judged when it is dialled
		}
		if test.host == platformHost {
			continue // public as such; denied by the default configuration
		}
		host := test.host
		if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
			host = "[" + host + "]"
		}
		if _, err := g.CheckWebhook("https://" + host + "/hook"); err == nil {
			t.Errorf("%s: https://%s/hook was taken", test.name, host)
		} else {
			refused++
		}
	}
	if refused < 30 {
		t.Errorf("%d hostile addresses were tried, want thirty", refused)
	}
}

type noDialer struct{ t *testing.T }

func (d noDialer) DialContext(_ context.Context, network, address string) (net.Conn, error) {
	d.t.Errorf("dialled %s %s", network, address)
	return nil, net.ErrClosed
}

func TestCheckWebhook(t *testing.T) {
	bare := netguard.New(netguard.Options{Deny: prefixes(platformHost + "/32")})
	own := netguard.New(netguard.Options{Allow: prefixes("127.0.0.0/8", "10.1.0.0/16")})
	for _, test := range []struct {
		name  string
		guard *netguard.Guard
		url   string
		says  string // part of the error; empty: it is taken
	}{
		{"ordinary", bare, "https://hooks.example.com/a?b=c", ""},
		{"another port", bare, "https://hooks.example.com:8443/", ""},
		{"public address", bare, "https://8.8.8.8/", ""},
		{"a number in a name", bare, "https://hooks1.example.com/", ""},
		{"mail", bare, "https://hooks.example.com:25/", "port 25"},
		{"ssh of an address", bare, "https://8.8.8.8:22/", "port 22"},
		{"plain", bare, "http://hooks.example.com/", "write https"},
		{"plain address", own, "http://8.8.8.8/", "plain http"},
		{"own, plain", own, "http://10.1.2.3:8080/", ""},
		{"own name", own, "http://receiver.corp/", ""},
		{"own host", own, "http://localhost:99/", ""},
		{"this host", bare, "https://localhost/", "localhost"},
		{"this host, rooted", bare, "https://LOCALHOST./", "localhost"},
		{"under this host", bare, "https://a.localhost/", "localhost"},
		{"metadata by name", bare, "https://metadata.google.internal/", "metadata.google.internal"},
		{"metadata, with own networks", own, "http://metadata/", "metadata"},
		{"denied", bare, "https://" + platformHost + "/", "network.deny"},
		{"decimal", bare, "https://2130706433/", "number"},
		{"hexadecimal", bare, "https://0x7f000001/", "number"},
		{"hexadecimal part", bare, "https://127.0.0.0x1/", "number"},
		{"octal", bare, "https://0177.0.0.1/", "number"},
		{"short", bare, "https://127.1/", "number"},
		{"rooted number", bare, "https://127.1./", "number"},
		{"rooted address", bare, "https://127.0.0.1./", "public"},
		{"rooted metadata", own, "https://169.254.169.254./", "public"},
		{"full width digits", bare, "https://１２７.0.0.1/", "ASCII"},
		{"interface", bare, "https://[fe80::1%25eth0]/", "interface"},
		{"mapped", bare, "https://[::ffff:127.0.0.1]/", "public"},
		{"user", bare, "https://me:pw@hooks.example.com/", "user name"},
		{"fragment", bare, "https://hooks.example.com/#x", "fragment"},
		{"no host", bare, "https:///x", "no host"},
		{"file", bare, "file:///etc/passwd", "scheme"},
		{"line feed", bare, "https://hooks.example.com/\nHost: x", "position"},
		{"backslash", bare, `https://hooks.example.com\@10.0.0.1/`, "position"},
		{"port zero", bare, "https://hooks.example.com:0/", "port"},
		{"long", bare, "https://hooks.example.com/" + strings.Repeat("a", netguard.MaxURLLength), "long"},
	} {
		_, err := test.guard.CheckWebhook(test.url)
		switch {
		case test.says == "" && err != nil:
			t.Errorf("%s: %s was refused: %v", test.name, test.url, err)
		case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)):
			t.Errorf("%s: %s: error %v, want one that says %q", test.name, test.url, err, test.says)
		case err != nil && strings.Contains(err.Error(), "pw@"):
			t.Errorf("%s: the error repeats a password: %v", test.name, err)
		}
	}
}
