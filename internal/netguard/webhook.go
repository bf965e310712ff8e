package netguard

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// CheckWebhook reads the address of a webhook that a stranger registers, and
// refuses one that could never be delivered to: beyond the rules of ParseURL
// and CheckURL a number in any form but the usual one, which resolvers read in
// their own ways; names that stand for this host or for a platform's metadata;
// plain http where network.allow has nothing; and, outside network.allow, a
// well-known port that is not that of https. Nothing is resolved or dialled: a
// name is judged again, by its address, whenever it is dialled. The error names
// what to change.
func (g *Guard) CheckWebhook(raw string) (*url.URL, error) {
	u, err := ParseURL(raw)
	if err != nil {
		return nil, err
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil && looksNumeric(host):
		return nil, fmt.Errorf("the host %q is a number that resolvers read in different ways: write a name, or an address as four decimal numbers", host)
	case err == nil && ip.Zone() != "":
		return nil, fmt.Errorf("the host %q names an interface of a machine: write an address without %%", host)
	case err != nil:
		return u, g.checkWebhookName(u, host)
	}
	if err := g.CheckURL(u); err != nil {
		return nil, err
	}
	if !g.Allowed(ip) {
		return u, checkWebhookPort(u)
	}
	return u, nil
}

// checkWebhookName judges a host that is not written as an address.
func (g *Guard) checkWebhookName(u *url.URL, host string) error {
	if stands, ok := standsFor(host); ok {
		if err := g.check(netip.AddrPortFrom(stands, urlPort(u)), agentPurpose(u.Scheme)); err != nil {
			return fmt.Errorf("the host %s stands for an address that is not reached from here: %w", host, err)
		}
		return nil
	}
	if u.Scheme != "https" && len(g.allow) == 0 {
		return errors.New("the scheme is http: write https; plain http is only for addresses inside network.allow")
	}
	if len(g.allow) == 0 {
		return checkWebhookPort(u)
	}
	return nil // the name may be one of the operator's own
}

// checkWebhookPort keeps callers from knocking at other services' ports.
func checkWebhookPort(u *url.URL) error {
	if port := urlPort(u); !webhookPort(port) {
		return fmt.Errorf("the port %d is that of another service: use 443, or one from 1024 on", port)
	}
	return nil
}

func webhookPort(port uint16) bool { return port == 443 || port >= 1024 }

// standsFor gives the address for which a well-known name stands everywhere.
func standsFor(host string) (netip.Addr, bool) {
	switch {
	case host == "localhost", strings.HasSuffix(host, ".localhost"), host == "localhost.localdomain", host == "ip6-localhost", host == "ip6-loopback":
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), true
	case host == "metadata", host == "metadata.google.internal", host == "instance-data", strings.HasSuffix(host, ".ec2.internal"):
		return netip.AddrFrom4([4]byte{169, 254, 169, 254}), true
	}
	return netip.Addr{}, false
}

// looksNumeric reports whether a host that is no address ends in a number, which
// some resolvers and browsers read as an address all the same.
func looksNumeric(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}
