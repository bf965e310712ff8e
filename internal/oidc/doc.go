// Package oidc verifies access tokens of OpenID providers and OAuth
// authorization servers, and tells callers which of those the mesh knows (RFC
// 9728). It says what a token proves; who that is here, identity decides.
//
// A token is a signed JWT in compact form (RFC 9068; the rules of RFC 8725). The
// checks are ours, the signatures go-jose's: one parser reads the token before
// and after its signature is verified; the issuer's configuration, never the
// token, says which keys and algorithms count. No address in a token is ever
// followed.
//
// Keys come from the issuer's metadata through the guarded client of package
// netguard, and are kept in memory: fetched at the start and every
// Issuer.Refresh, and once more for a key that is not known, at most once a
// minute per issuer whatever arrives. While fetches fail the keys stay in use
// for MaxKeyAge. An issuer that is down keeps nothing from starting.
//
// A Verifier is safe for concurrent use.
package oidc
