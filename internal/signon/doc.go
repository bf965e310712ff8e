// Package signon is what a mesh tells its callers about the issuers whose tokens
// it takes (RFC 9728), and what a command line does with that: it logs a person
// in by the device flow (RFC 8628), keeps the tokens in files that only that
// person can read, and renews them.
//
// A token belongs to one mesh, by its origin, and goes nowhere else; what renews
// it goes to the issuer it came from and nowhere else. Redirects are not
// followed. Issuers are asked over https, or over http on this machine.
package signon
