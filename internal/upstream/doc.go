// Package upstream gets the access tokens that the mesh shows agents, by the
// OAuth 2 grant "client credentials" (RFC 6749, section 4.4).
//
// A client secret goes to the one token endpoint that an operator stored with
// it, through the guarded fetch client: no card, redirect or answer can send it
// elsewhere. Tokens live in memory only. Neither tokens nor secrets are in any
// error, log line or metric.
//
// The package does not know what a token is for, nor does it send it: callers
// show it to the agent, and come back where the agent refuses it.
//
// Tokens is safe for concurrent use.
package upstream
