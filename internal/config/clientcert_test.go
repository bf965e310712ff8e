package config

import (
	"slices"
	"strings"
	"testing"
)

// Settings for client certificates that would do nothing are mistakes.
func TestClientCertificateSettings(t *testing.T) {
	const tls = "tls: {cert: c.pem, key: k.pem, client_ca: ca.pem"
	for _, tc := range []struct{ file, says string }{
		{tls + "}", ""},
		{tls + ", client_auth: require, crl: lists, crl_check: lenient, reload: 1m}\nauth: {spiffe: {trust_domains: [a.example, spiffe://b.example]}}", ""},
		{tls + ", client_auth: none}", ""},
		{"tls: {client_ca: ca.pem}", "tls.client_ca: is set without TLS"},
		{"tls: {cert: c.pem, key: k.pem, crl: lists}", "tls.crl: is set without authorities"},
		{"tls: {cert: c.pem, key: k.pem, client_auth: require}", "tls.client_auth: asks for client certificates"},
		{"tls: {cert: c.pem, key: k.pem, client_auth: always}", "none, request or require"},
		{"auth: {spiffe: {trust_domains: [a.example]}}", "auth.spiffe.trust_domains: is set and client certificates are not taken"},
		{tls + "}\nauth: {spiffe: {trust_domains: [a.example/x]}}", "is no trust domain"},
		{tls + "}\nauth: {spiffe: {trust_domains: [A.example]}}", "is no trust domain"},
		{tls + "}\nauth: {spiffe: {trust_domain: [a.example]}}", "trust_domains"},
	} {
		c, err := load(t, tc.file, nil)
		switch {
		case tc.says == "" && err != nil:
			t.Errorf("%s: %v", tc.file, err)
		case tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)):
			t.Errorf("%s: %v, want it to say %q", tc.file, err, tc.says)
		}
		if err == nil && len(c.Auth.SPIFFE.TrustDomains) > 0 && !slices.Equal(c.Auth.SPIFFE.TrustDomains, []string{"a.example", "b.example"}) {
			t.Errorf("trust domains %v", c.Auth.SPIFFE.TrustDomains)
		}
	}
}
