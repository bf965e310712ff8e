package cardsign

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// Limits of key sets and keys.
const (
	// MaxKeySetBytes is the largest key set.
	MaxKeySetBytes = 64 << 10
	// maxKeys is how many keys of a set are looked at.
	maxKeys = 100
	// minRSABits and maxRSABits bound what verifying may cost, and be worth.
	minRSABits, maxRSABits = 2048, 8192
)

// KeySet is keys that are known. It is a KeySource by their ids.
type KeySet []jose.JSONWebKey

// ParseKeySet reads a key set (RFC 7517), or a single key. What cannot verify
// signatures is left out: keys for other purposes and of unknown kinds, and also
// private and symmetric ones, which nobody should publish, and those whose set
// says that they are not valid now (exp, nbf) or revoked.
func ParseKeySet(raw []byte, now time.Time) (KeySet, error) {
	if e := jsonwire.Valid(raw, jsonwire.Limits{MaxBytes: MaxKeySetBytes, MaxDepth: 16}); e != nil {
		return nil, fmt.Errorf("key set: %w", e)
	}
	list, ok := jsonwire.Get(raw, "/keys")
	all := jsonwire.Elements(list)
	if !ok {
		if _, single := jsonwire.Get(raw, "/kty"); !single {
			return nil, errors.New("key set: has no member keys")
		}
		all = append(all, raw)
	} else if all == nil && (len(list) == 0 || list[0] != '[') {
		return nil, errors.New("key set: keys is no list")
	}
	if len(all) > maxKeys {
		return nil, fmt.Errorf("key set: has %d keys, at most %d are taken", len(all), maxKeys)
	}
	set := KeySet{}
	for _, one := range all {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(one) != nil || !key.Valid() || !key.IsPublic() || key.Use != "" && key.Use != "sig" {
			continue
		}
		if ops, ok := jsonwire.Get(one, "/key_ops"); ok && !slices.Contains(jsonwire.Strings(ops), "verify") {
			continue
		}
		if _, revoked := jsonwire.Get(one, "/revoked"); revoked || !inTime(one, now) {
			continue
		}
		set = append(set, key)
	}
	return set, nil
}

// inTime reports whether a key is valid now, as far as its set says. What is no
// time is none at which it is.
func inTime(key []byte, now time.Time) bool {
	for name, ok := range map[string]func(at float64) bool{
		"/nbf": func(at float64) bool { return float64(now.Unix()) >= at },
		"/exp": func(at float64) bool { return float64(now.Unix()) < at },
	} {
		raw, there := jsonwire.Get(key, name)
		if !there {
			continue
		}
		if at, err := strconv.ParseFloat(string(raw), 64); err != nil || !ok(at) {
			return false
		}
	}
	return true
}

// Keys implements KeySource.
func (s KeySet) Keys(_ context.Context, h Hint) ([]jose.JSONWebKey, error) {
	var found []jose.JSONWebKey
	for _, key := range s {
		if key.KeyID == h.KeyID {
			found = append(found, key)
		}
	}
	if len(found) == 0 {
		return nil, errors.New("the key set does not have it")
	}
	return found, nil
}

// curves are those of each algorithm over elliptic curves.
var curves = map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()}

// fits reports whether a key is one for the algorithm: else a signature could
// choose how a key is used.
func fits(key jose.JSONWebKey, algorithm string) bool {
	if key.Algorithm != "" && key.Algorithm != algorithm && (algorithm != "EdDSA" || key.Algorithm != "Ed25519") {
		return false
	}
	switch public := key.Key.(type) {
	case *ecdsa.PublicKey:
		return curves[algorithm] != nil && public.Curve == curves[algorithm]
	case ed25519.PublicKey:
		return algorithm == "EdDSA"
	case *rsa.PublicKey:
		bits := public.N.BitLen()
		return (algorithm == "RS256" || algorithm == "PS256") && bits >= minRSABits && bits <= maxRSABits
	}
	return false
}
