// Package vault seals the payloads and secrets that rest on disk, so that a
// copied database without its master key tells nothing of them.
//
// Three layers of keys: the master key stays outside the database (a file, or
// an environment variable); every owner has a data key, which rests in the
// database wrapped under a key that HKDF-SHA256 derives from the master for
// that owner; every message has a key of its own, derived from the data key
// and a random 192-bit nonce (XAES-256-GCM, C2SP). Random 96-bit nonces under
// one key would have to stop at 2^32 messages, which a busy mesh seals in a
// week; the derived keys lift that limit to about 2^80 for some 400 ns more.
//
// Each message is bound to the table, row and column it rests in, to its owner
// and to its format: a value that was moved or swapped does not open.
//
// The vault holds no payloads; the store keeps them. It does not hide sizes,
// and memory that held plaintext is left to the garbage collector. All methods
// are safe for concurrent use.
package vault
