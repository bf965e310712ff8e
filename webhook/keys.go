package webhook

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Limits of the mesh's published keys.
const (
	maxKeySet   = 64 << 10         // bytes
	maxKeys     = 64               // in a set; further ones are not read
	keysFresh   = 10 * time.Minute // after which a set is fetched again, so that revoked keys go
	keysPause   = time.Minute      // least time between two fetches, whatever asks for them
	keysTimeout = 10 * time.Second // of a fetch
)

// keySet is the mesh's published keys, as they were last fetched.
type keySet struct {
	url    string
	client *http.Client
	now    func() time.Time

	// turn is held while keys are looked at or fetched: whoever comes meanwhile
	// waits for that fetch instead of making its own.
	turn    chan struct{}
	es256   map[string]*ecdsa.PublicKey
	eddsa   []ed25519.PublicKey
	fetched time.Time // when the keys were; zero: never
	tried   time.Time // when a fetch was last tried
	failure error     // of that one
}

func newKeySet(url string, client *http.Client, now func() time.Time) *keySet {
	own := http.Client{Timeout: keysTimeout}
	if client != nil {
		own = *client
	}
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &keySet{url: url, client: &own, now: now, turn: make(chan struct{}, 1)}
}

func checkKeysURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User != nil {
		return fmt.Errorf("webhook: the address of the keys %q is no URL: write it as https://host/path", raw)
	}
	host := u.Hostname()
	loopback := host == "localhost" || net.ParseIP(host).IsLoopback()
	if u.Scheme != "https" && (u.Scheme != "http" || !loopback) {
		return fmt.Errorf("webhook: keys from %q could be anybody's: use https", raw)
	}
	return nil
}

// find gives the key of a token. One that is not known is looked for in a fresh
// set, at most once a minute.
func (s *keySet) find(ctx context.Context, id string) (key *ecdsa.PublicKey, err error) {
	err = s.with(ctx, func() bool { key = s.es256[id]; return key != nil })
	if err == nil && key == nil {
		err = refused("the mesh has no key %.64q", id)
	}
	return key, err
}

// signed reports whether one of the signatures is a key's. Those of Standard
// Webhooks name no key: where none that is known fits, a newer one may.
func (s *keySet) signed(ctx context.Context, content []byte, signatures [][]byte) (ok bool, err error) {
	err = s.with(ctx, func() bool {
		ok = slices.ContainsFunc(signatures, func(signature []byte) bool {
			return slices.ContainsFunc(s.eddsa, func(key ed25519.PublicKey) bool { return ed25519.Verify(key, content, signature) })
		})
		return ok
	})
	return ok, err
}

// with calls look, which reports whether it found what it wants, on fresh keys
// and, if it did not, on newer ones. The error is ErrUnavailable where there are
// no keys at all.
func (s *keySet) with(ctx context.Context, look func() bool) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
	found, now := look(), s.now()
	if (!found || now.Sub(s.fetched) >= keysFresh) && (s.tried.IsZero() || now.Sub(s.tried) >= keysPause) {
		s.tried = now
		s.failure = s.fetch(ctx)
		found = look()
	}
	if !found && s.failure != nil {
		return fmt.Errorf("%w: the mesh's keys: %w", ErrUnavailable, s.failure)
	}
	return nil
}

// fetch reads the published set. A failure leaves the keys as they are.
func (s *keySet) fetch(ctx context.Context) error {
	// A delivery that is broken off must not leave all others without keys for a
	// minute.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keysTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered with status %d", s.url, resp.StatusCode)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxKeySet+1))
	if err != nil {
		return err
	}
	if len(raw) > maxKeySet {
		return fmt.Errorf("%s answered with more than %d bytes", s.url, maxKeySet)
	}
	es256, eddsa, err := parseKeys(raw)
	if err != nil {
		return err
	}
	s.es256, s.eddsa, s.fetched = es256, eddsa, s.now()
	return nil
}

// parseKeys reads a key set (RFC 7517). Keys of kinds that deliveries do not use
// are passed over.
func parseKeys(raw []byte) (map[string]*ecdsa.PublicKey, []ed25519.PublicKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, nil, fmt.Errorf("the key set is no JSON: %w", err)
	}
	es256 := map[string]*ecdsa.PublicKey{}
	var eddsa []ed25519.PublicKey
	for _, one := range set.Keys[:min(len(set.Keys), maxKeys)] {
		var key jose.JSONWebKey
		if json.Unmarshal(one, &key) != nil || !key.IsPublic() || key.Use != "" && key.Use != "sig" {
			continue
		}
		switch public := key.Key.(type) {
		case *ecdsa.PublicKey:
			if public.Curve == elliptic.P256() && key.KeyID != "" {
				es256[key.KeyID] = public
			}
		case ed25519.PublicKey:
			eddsa = append(eddsa, public)
		}
	}
	return es256, eddsa, nil
}
