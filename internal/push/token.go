package push

import (
	"crypto/sha256"
	"crypto/subtle"
)

// HashToken is what is kept of the token that an agent gets: it has 130 random
// bits, so that nothing slower is needed.
func HashToken(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// TokenMatches compares a token with a hash, in a time that does not tell where
// they differ. No token matches no hash.
func TokenMatches(hash []byte, token string) bool {
	return subtle.ConstantTimeCompare(hash, HashToken(token)) == 1
}
