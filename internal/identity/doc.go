// Package identity says who is asking: owners, principals, their API keys, and
// the subjects of foreign issuers that are principals here.
// It never says what they may do with an agent; that is the registry's allow
// list today.
//
// Invariants: every principal has an owner and an environment; a key's secret
// is shown once, when it is made, and only its SHA-256 is kept; a revoked or
// expired key identifies nobody from that moment on; a token leads to a
// principal by its issuer and subject alone, never by another claim; failures to identify are
// counted and summarised, never recorded one by one.
//
// Directory is safe for concurrent use; the other types are plain values.
package identity
