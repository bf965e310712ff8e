package config

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestLoopbackIncluded(t *testing.T) {
	for _, test := range []struct {
		listen      string
		environment string
		want        bool
	}{
		{"127.0.0.1:7400", "dev", true},
		{"127.9.9.9:7400", "dev", true},
		{"[::1]:7400", "dev", true},
		{"localhost:7400", "dev", true},
		{"127.0.0.1:7400", "test", false},
		{"127.0.0.1:7400", "prod", false},
		{"0.0.0.0:7400", "dev", false},
		{"[::]:7400", "dev", false},
		{":7400", "dev", false},
		{"10.0.0.1:7400", "dev", false},
		{"localhost.example.org:7400", "dev", false},
	} {
		c := mustLoad(t, "", nil, "--listen", test.listen, "--environment", test.environment, "--public-url", "https://mesh.example.org", "--allow-network", "10.0.0.0/8")
		allowed := c.AllowedNetworks()
		if got := slices.Contains(allowed, netip.MustParsePrefix("127.0.0.0/8")); got != test.want {
			t.Errorf("%s in %s: loopback allowed %t, want %t", test.listen, test.environment, got, test.want)
		}
		if !slices.Contains(allowed, netip.MustParsePrefix("10.0.0.0/8")) {
			t.Errorf("%s in %s: the configured range is missing from %v", test.listen, test.environment, allowed)
		}
		if len(c.Network.Allow) != 1 {
			t.Errorf("AllowedNetworks changed the configuration: %v", c.Network.Allow)
		}
		said := strings.Contains(strings.Join(c.Notices(), "\n"), "includes loopback")
		if said != test.want {
			t.Errorf("%s in %s: the notice says so: %t, want %t", test.listen, test.environment, said, test.want)
		}
	}
}

func TestPublicAddress(t *testing.T) {
	bound := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 40123}
	for _, test := range []struct {
		name, yaml, want string
	}{
		{"free port", "listen: 127.0.0.1:0", "http://127.0.0.1:40123"},
		{"name kept", "listen: localhost:0", "http://localhost:40123"},
		{"tls", "listen: localhost:0\ntls: {cert: c.pem, key: k.pem}", "https://localhost:40123"},
		{"ipv6", "listen: \"[::1]:0\"", "http://[::1]:40123"},
		{"set", "listen: \":0\"\npublic_url: https://mesh.example.org/p/", "https://mesh.example.org/p"},
	} {
		if got := mustLoad(t, test.yaml, nil).PublicAddress(bound); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestNoticeAboutPlainTraffic(t *testing.T) {
	const sentence = "send their keys unencrypted"
	for listen, want := range map[string]bool{"127.0.0.1:7400": false, "10.0.0.1:7400": true} {
		notices := strings.Join(mustLoad(t, "", nil, "--listen", listen).Notices(), "\n")
		if strings.Contains(notices, sentence) != want {
			t.Errorf("%s: notices %q, want the sentence: %t", listen, notices, want)
		}
	}
}
