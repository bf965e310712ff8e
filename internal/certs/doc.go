// Package certs keeps what the mesh's TLS listeners work with: the server's own
// certificate, the authorities whose client certificates are taken, and the
// lists of what those have revoked. It follows changes of the files without a
// restart, and judges client certificates. Which principal a certificate proves
// is package identity's to say.
//
// Invariants: a file that cannot be used leaves what was loaded before in use,
// and is told in the log by name; a client certificate is judged by what is
// loaded now at every handshake, resumed ones included, and again whenever a
// Verify is asked for; where revocation cannot be known, it is refused unless
// the configuration is lenient.
//
// A Keeper is safe for concurrent use.
package certs
