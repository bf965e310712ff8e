package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"strings"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// An API key reads pk_ID_SECRET. Both halves are lower-case base32 of fixed
// length, so that one regular expression (KeyPattern) lets a secret scanner
// find a leaked key, and a double click selects all of it.
const (
	KeyPrefix       = "pk_"
	keyIDLength     = 12 // 60 random bits: the name of the key, not its strength
	keySecretBytes  = 32 // 256 random bits
	keySecretLength = 52 // keySecretBytes in base32 without padding
	keyLength       = len(KeyPrefix) + keyIDLength + 1 + keySecretLength
)

// KeyPattern matches every API key and next to nothing else.
const KeyPattern = `pk_[a-z2-7]{12}_[a-z2-7]{52}`

const keyAlphabet = "abcdefghijklmnopqrstuvwxyz234567"

var keyEncoding = base32.NewEncoding(keyAlphabet).WithPadding(base32.NoPadding)

// NewKey makes a key for principal. The text is what the principal presents;
// it cannot be had from the Key again. A ttl of 0 makes a key that does not
// expire.
func NewKey(principal parley.PrincipalName, note string, now time.Time, ttl time.Duration) (text string, k Key) {
	var id [keyIDLength]byte
	rand.Read(id[:]) // never fails: crypto/rand ends the process instead
	for i, b := range id {
		id[i] = keyAlphabet[b&31]
	}
	var secret [keySecretBytes]byte
	rand.Read(secret[:])
	text = KeyPrefix + string(id[:]) + "_" + keyEncoding.EncodeToString(secret[:])
	k = Key{
		ID: string(id[:]), Principal: principal, Hash: sha256.Sum256([]byte(text)),
		Note: note, CreatedAt: now,
	}
	if ttl > 0 {
		k.ExpiresAt = now.Add(ttl)
	}
	return text, k
}

// keyID is the public half of text; ok is false where text cannot be a key.
func keyID(text string) (id string, ok bool) {
	if len(text) != keyLength || !strings.HasPrefix(text, KeyPrefix) {
		return "", false
	}
	id, secret := text[len(KeyPrefix):len(KeyPrefix)+keyIDLength], text[len(KeyPrefix)+keyIDLength+1:]
	if text[len(KeyPrefix)+keyIDLength] != '_' || !inKeyAlphabet(id) || !inKeyAlphabet(secret) {
		return "", false
	}
	return id, true
}

func inKeyAlphabet(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}

// hashKey is the SHA-256 of text, which has passed keyID. The copy keeps the
// hot path free of allocations.
func hashKey(text string) [32]byte {
	var b [keyLength]byte
	n := copy(b[:], text)
	return sha256.Sum256(b[:n])
}

// refuse says why a key with that hash does not prove k's principal at now;
// empty if it does. What is wrong with a key is told only to whoever holds its
// secret.
func (k *Key) refuse(hash [32]byte, now time.Time) Reason {
	switch {
	case subtle.ConstantTimeCompare(hash[:], k.Hash[:]) != 1:
		return ReasonUnknownKey
	case k.Revoked(now):
		return ReasonRevoked
	case k.Expired(now):
		return ReasonExpired
	}
	return ""
}

// Revoked reports whether the key is revoked at now.
func (k *Key) Revoked(now time.Time) bool { return !k.RevokedAt.IsZero() && !now.Before(k.RevokedAt) }

// Expired reports whether the key's time is over at now.
func (k *Key) Expired(now time.Time) bool { return !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt) }
