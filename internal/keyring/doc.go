// Package keyring holds the keys with which the mesh signs: cards, tokens of
// pushes, and webhooks. A purpose has one key in force at a time; it is made when
// it is first needed and replaced every rotation period.
//
// A new key is published before it signs, and an old one stays published until
// what it signed is out of use (the overlap), so that whoever verifies with the
// published set always finds the key, at whichever replica it asks. Keys are
// rows of the store, which seals their private halves; all replicas sign with the
// same ones. The id of a key is its thumbprint (RFC 7638).
//
// The package signs nothing itself, and publishes nothing: it gives the key in
// force and the set to publish. A Ring is safe for concurrent use.
package keyring
