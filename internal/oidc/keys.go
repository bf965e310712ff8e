package oidc

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
)

const (
	// MaxKeyAge is how long keys are used after they were last fetched. An
	// issuer may be away for a while; keys it has taken back meanwhile must end.
	MaxKeyAge = 24 * time.Hour
	// demandEvery is the least time between two fetches because of a key that
	// is not known: anybody can name one.
	demandEvery = time.Minute
	// loadTimeout bounds one look at an issuer: its metadata and its keys.
	loadTimeout = 20 * time.Second
	// retryFirst and retryMax bound the pause after a fetch that failed.
	retryFirst = 5 * time.Second
	retryMax   = 5 * time.Minute
	minRSABits = 2048
)

// keyring keeps the keys of one issuer.
type keyring struct {
	issuer string
	source source
	every  time.Duration
	now    func() time.Time
	log    *slog.Logger

	mu       sync.Mutex
	keys     []jose.JSONWebKey // guarded by mu, as is what follows
	fetched  time.Time         // when keys were; zero: never
	demanded time.Time         // when a key was last looked for that was not there
	failing  bool              // the last fetch failed
	flight   *flight           // the fetch under way; nil for none
}

// flight is one fetch, and whoever waits for it.
type flight struct {
	done chan struct{} // closed at its end
	err  error         // set before that
}

func newKeyring(one Issuer, o Options) *keyring {
	return &keyring{
		issuer: one.ID, every: one.Refresh, now: o.Now, log: o.Log,
		source: source{issuer: one.ID, metadataURL: one.MetadataURL, fetch: o.Fetch, now: o.Now},
	}
}

// run fetches keys until ctx is done, more often while that fails.
func (k *keyring) run(ctx context.Context) {
	for pause := retryFirst; ; {
		wait := k.every
		if err := k.refresh(ctx, false); err != nil {
			wait = min(pause, k.every)
			pause = min(pause*2, retryMax)
		} else {
			pause = retryFirst
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// errTooSoon is why a key that is not known is not looked for.
var errTooSoon = errors.New("looked for a short time ago")

// refresh fetches the keys, or joins whoever does already. On demand it does so
// at most once in demandEvery.
func (k *keyring) refresh(ctx context.Context, demand bool) error {
	k.mu.Lock()
	f := k.flight
	if f == nil {
		now := k.now()
		if demand && !k.demanded.IsZero() && now.Sub(k.demanded) < demandEvery {
			k.mu.Unlock()
			return errTooSoon
		}
		if demand {
			k.demanded = now
		}
		f = &flight{done: make(chan struct{})}
		k.flight = f
		// It outlives whoever asked, since others wait for it too, and ends
		// within loadTimeout.
		go k.load(context.WithoutCancel(ctx), f)
	}
	k.mu.Unlock()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (k *keyring) load(ctx context.Context, f *flight) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	keys, err := k.source.keys(ctx)
	k.mu.Lock()
	changed := k.failing != (err != nil)
	k.failing = err != nil
	if err == nil {
		k.keys, k.fetched = keys, k.now()
	}
	f.err = err
	k.flight = nil
	k.mu.Unlock()
	close(f.done)
	switch {
	case err != nil && changed:
		k.log.Warn("keys of an issuer cannot be fetched; its tokens are taken while the old ones last", "issuer", k.issuer, "err", err)
	case err == nil && changed:
		k.log.Info("keys of an issuer can be fetched again", "issuer", k.issuer)
	}
}

// verify checks a token's signature with the key it names.
func (k *keyring) verify(ctx context.Context, t *token) error {
	keys, err := k.candidates(ctx, t)
	if err != nil {
		return err
	}
	signed, err := jose.ParseSignedCompact(t.compact, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(t.algorithm)})
	if err != nil {
		return notTaken("its signature cannot be read")
	}
	for _, key := range keys {
		payload, err := signed.Verify(key.Key)
		if err == nil && bytes.Equal(payload, t.payload) {
			return nil
		}
	}
	return &identity.Refusal{Reason: identity.ReasonSignature}
}

// candidates are the keys that may have signed a token, looked for at the issuer
// where none is known.
func (k *keyring) candidates(ctx context.Context, t *token) ([]jose.JSONWebKey, error) {
	const op parley.Op = "oidc.verify"
	if keys, _ := k.find(t); len(keys) > 0 {
		return keys, nil
	}
	err := k.refresh(ctx, true)
	if ctx.Err() != nil {
		return nil, parley.E(op, parley.Canceled, parley.Subject(k.issuer), "canceled", ctx.Err())
	}
	keys, usable := k.find(t)
	switch {
	case len(keys) > 0:
		return keys, nil
	case usable && !k.isFailing() && (err == nil || errors.Is(err, errTooSoon)):
		return nil, &identity.Refusal{Reason: identity.ReasonSignature, Detail: "the token names a key that its issuer does not have: get a new one"}
	}
	return nil, parley.E(op, parley.Unavailable, parley.Subject(k.issuer),
		"the keys of the token's issuer cannot be fetched, so that the token cannot be checked: try again later", err)
}

func (k *keyring) isFailing() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failing
}

// find gives the keys that may have signed a token; usable says whether there
// are keys at all that are not too old. A token that names no key is tried with
// the issuer's only one of its kind.
func (k *keyring) find(t *token) (keys []jose.JSONWebKey, usable bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fetched.IsZero() || k.now().Sub(k.fetched) > MaxKeyAge {
		return nil, false
	}
	for _, key := range k.keys {
		if (t.keyID == "" || key.KeyID == t.keyID) && fits(key, t.algorithm) {
			keys = append(keys, key)
		}
	}
	if t.keyID == "" && len(keys) > 1 {
		return nil, true
	}
	return keys, true
}

// fits reports whether key is one for the algorithm. Without this check a token
// could choose how a key is used.
func fits(key jose.JSONWebKey, algorithm string) bool {
	if key.Algorithm != "" && key.Algorithm != algorithm && !(algorithm == "EdDSA" && key.Algorithm == "Ed25519") {
		return false
	}
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		return (strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS")) && public.N.BitLen() >= minRSABits
	case *ecdsa.PublicKey:
		return public.Curve == map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()}[algorithm]
	case ed25519.PublicKey:
		return algorithm == "EdDSA"
	}
	return false
}

// usableKeys are those of a key set that can verify signatures. What is not
// understood is left out: issuers publish keys for other purposes too.
func usableKeys(all []jose.JSONWebKey) ([]jose.JSONWebKey, error) {
	keys := slices.DeleteFunc(all, func(key jose.JSONWebKey) bool {
		return !key.Valid() || !key.IsPublic() || key.Use != "" && key.Use != "sig"
	})
	if len(keys) == 0 {
		return nil, fmt.Errorf("the key set has no key for signatures")
	}
	return keys, nil
}
