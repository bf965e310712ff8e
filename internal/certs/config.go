package certs

import (
	"crypto/tls"
)

// Config is the TLS configuration of the mesh's listeners. It follows the files;
// it must be used as it is, not as a copy, so that handshakes can be resumed
// across changes.
func (k *Keeper) Config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         nextProtos,
		GetConfigForClient: k.configFor,
		// For whoever looks at a configuration before it serves.
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &k.loaded.Load().server, nil },
	}
}

var nextProtos = []string{"h2", "http/1.1"}

// configFor gives the configuration of one handshake.
func (k *Keeper) configFor(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	m := k.loaded.Load()
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: nextProtos, Certificates: []tls.Certificate{m.server}}
	if m.clients == nil {
		return c, nil
	}
	// crypto/tls only asks for a certificate; it is judged below, where resumed
	// handshakes come by as well: what has been revoked since must not slip in by a
	// ticket.
	c.ClientAuth, c.ClientCAs = tls.RequestClientCert, m.clients.roots
	if k.opts.Require {
		c.ClientAuth = tls.RequireAnyClientCert
	}
	remote := ""
	if hello.Conn != nil {
		remote = hello.Conn.RemoteAddr().String()
	}
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return nil
		}
		err := k.Verify(s.PeerCertificates)
		if err != nil && k.opts.Refused != nil {
			k.opts.Refused(remote, err)
		}
		return err
	}
	return c, nil
}
