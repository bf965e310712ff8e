package config

import (
	"net"
	"net/netip"
	"strings"
)

// validate finds the mistakes that single values cannot show: combinations,
// and values that will be possible only later.
func (c *Config) validate() []*Error {
	var problems []*Error
	fail := func(key, problem string) {
		problems = append(problems, &Error{Origin: c.Origin(key), Key: key, Problem: problem})
	}
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		set, missing := "tls.cert", "tls.key"
		if c.TLS.Cert == "" {
			set, missing = missing, set
		}
		fail(set, "is set alone: set "+missing+" as well, TLS needs both")
	}
	for _, problem := range c.clientCertProblems() {
		fail(problem[0], problem[1])
	}
	if c.PublicURL == "" && isWildcard(c.Listen) {
		fail("listen", "\""+c.Listen+"\" means every address of the machine, so cards cannot say where the mesh is: set public_url to the address callers use")
	}
	if c.Watch.First > c.Watch.Max {
		fail("watch.first", "is longer than watch.max ("+formatDuration(c.Watch.Max)+"): make it shorter, or watch.max longer")
	}
	if c.Push.RetryFirst > c.Push.RetryMax {
		fail("push.retry_first", "is longer than push.retry_max ("+formatDuration(c.Push.RetryMax)+"): make it shorter, or push.retry_max longer")
	}
	if c.Limits.StreamsPerPrincipal > c.Limits.Streams {
		fail("limits.streams_per_principal", "is more than limits.streams allows in all: lower it, or raise limits.streams")
	}
	return append(problems, c.addressClashes()...)
}

// clientCertProblems are pairs of a key and what is wrong with it beside others.
func (c *Config) clientCertProblems() (problems [][2]string) {
	if c.TLS.ClientCA != "" && c.TLS.Cert == "" {
		problems = append(problems, [2]string{"tls.client_ca", "is set without TLS: set tls.cert and tls.key as well"})
	}
	if c.TLS.ClientCA != "" {
		return problems
	}
	if c.TLS.CRL != "" {
		problems = append(problems, [2]string{"tls.crl", "is set without authorities: set tls.client_ca as well"})
	}
	if c.TLS.ClientAuth == ClientAuthRequire {
		problems = append(problems, [2]string{"tls.client_auth", "asks for client certificates without authorities to judge them by: set tls.client_ca as well"})
	}
	if len(c.Auth.SPIFFE.TrustDomains) > 0 {
		problems = append(problems, [2]string{"auth.spiffe.trust_domains", "is set and client certificates are not taken: set tls.client_ca as well"})
	}
	return problems
}

// addressClashes finds listeners that are told to share an address. Port 0 is
// always free.
func (c *Config) addressClashes() []*Error {
	listeners := []struct{ key, addr string }{
		{"listen", c.Listen}, {"control_listen", c.ControlListen}, {"grpc_listen", c.GRPCListen}, {"ops_listen", c.OpsListen},
	}
	var problems []*Error
	for i, later := range listeners {
		for _, earlier := range listeners[:i] {
			if later.addr == "" || later.addr != earlier.addr || strings.HasSuffix(later.addr, ":0") {
				continue
			}
			problem := "is the address of " + earlier.key + " as well: give it another port"
			if later.key == "control_listen" {
				problem = "is the address of listen as well: leave it empty to serve both there"
			}
			problems = append(problems, &Error{Origin: c.Origin(later.key), Key: later.key, Problem: problem})
		}
	}
	return problems
}

func isWildcard(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	address, err := netip.ParseAddr(host)
	return host == "" || err == nil && address.IsUnspecified()
}

func isLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.Unmap().IsLoopback()
}
