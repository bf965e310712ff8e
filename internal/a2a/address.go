package a2a

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// GRPCAddress is where a gRPC interface is reached.
type GRPCAddress struct {
	Host  string // a name or an IP address, without brackets
	Port  string
	Plain bool // said to be without TLS
	Said  bool // whether TLS is used was said; else it is to be found out
}

// String is host:port, as the protocol writes the address of a gRPC interface.
func (a GRPCAddress) String() string { return net.JoinHostPort(a.Host, a.Port) }

// URL is the address in the form of a URL, which tells whether TLS is used, and
// whose origin can be compared with others.
func (a GRPCAddress) URL() string {
	if a.Plain {
		return "http://" + a.String()
	}
	return "https://" + a.String()
}

// ParseGRPCAddress reads the address of a gRPC interface: host:port, and also what
// cards hold instead, such as grpc://host:port, dns:///host:port or
// https://host:port/. The error says what to write.
func ParseGRPCAddress(text string) (GRPCAddress, error) {
	errForm := errors.New("is not the address of a gRPC interface: write host:port, as agents.example.com:443")
	var a GRPCAddress
	rest := text
	if scheme, after, ok := strings.Cut(text, "://"); ok {
		switch strings.ToLower(scheme) {
		case "grpc", "dns":
		case "http":
			a.Plain, a.Said = true, true
		case "grpcs", "https":
			a.Said = true
		default:
			return GRPCAddress{}, errForm
		}
		rest = strings.TrimSuffix(strings.TrimPrefix(after, "/"), "/")
	}
	if strings.ContainsAny(rest, "/?#@ \\") {
		return GRPCAddress{}, errForm
	}
	u, err := url.Parse("//" + rest)
	if err != nil || u.Hostname() == "" || u.Host != rest || strings.Contains(u.Hostname(), ":") != (rest[0] == '[') {
		return GRPCAddress{}, errForm
	}
	a.Host, a.Port = strings.ToLower(u.Hostname()), u.Port()
	if a.Port == "" {
		if !a.Said || strings.HasSuffix(rest, ":") {
			return GRPCAddress{}, errForm
		}
		a.Port = map[bool]string{true: "80", false: "443"}[a.Plain]
	}
	if n, err := strconv.ParseUint(a.Port, 10, 16); err != nil || n == 0 {
		return GRPCAddress{}, errors.New("has a port out of range: write one from 1 to 65535")
	}
	for _, r := range a.Host {
		if r <= ' ' || r > '~' {
			return GRPCAddress{}, errors.New("has a host that is not ASCII: write it in its xn-- form")
		}
	}
	return a, nil
}
