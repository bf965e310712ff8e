package probe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mesh/parley/internal/a2a/cardsign"
	"github.com/parley-mesh/parley/internal/netguard"
	"github.com/parley-mesh/parley/internal/registry"
)

const (
	// keySetPath is where a card's own origin may have its keys, where its
	// signatures name no place.
	keySetPath = "/.well-known/jwks.json"
	// keySetTimeout is for one fetch of a key set.
	keySetTimeout = 5 * time.Second
	// keySetFresh is how long a key set is used without asking again.
	keySetFresh = 5 * time.Minute
	// keySetAgain is the least time between two fetches of one key set: anybody
	// can name a key that is not in it.
	keySetAgain = time.Minute
	// maxKeySets is how many sets one card may name, keptKeySets how many are kept.
	maxKeySets  = 2
	keptKeySets = 1000
)

// verify finds out whose signatures a card has, and tells what is wrong with them.
// A card is not refused for its signatures: one without any would be taken.
func (l *look) verify(ctx context.Context) {
	s := &l.found.Signature
	keys := &cardKeys{look: l, tried: map[string]bool{}}
	v, err := cardsign.Verify(ctx, l.found.Card, keys)
	switch {
	case err != nil: // the card was read: only its signatures can be wrong
		s.State, s.Problem = registry.Wrong, words(err.Error(), maxDescription)
	case v.Count == 0:
		s.State = registry.Unsigned
	case len(v.Valid) > 0:
		s.State = registry.Verified
		for _, one := range v.Signers() {
			s.Keys = append(s.Keys, registry.CardKey{
				KeyID: one.KeyID, Thumbprint: one.Thumbprint, Algorithm: one.Algorithm, JKU: one.JKU, Form: string(one.Form),
			})
		}
	case keys.withdrawn:
		s.State = registry.Withdrawn
	case v.Keyless:
		s.State = registry.Unverified
	default:
		s.State = registry.Wrong
	}
	if s.State == registry.Unsigned || s.State == registry.Verified {
		return
	}
	if s.Problem == "" && len(v.Problems) > 0 {
		s.Problem = words(v.Problems[0], maxDescription)
	}
	const fix = "see 'parley card verify'"
	l.problem(registry.Warning, "signatures", map[registry.SignatureState]string{
		registry.Wrong:      "no signature of the card holds: ",
		registry.Withdrawn:  "the key that signed the card is no longer published: ",
		registry.Unverified: "the card is signed, and no key to verify it with was to be had: ",
	}[s.State]+s.Problem, fix)
}

// cardKeys finds the keys of one card's signatures. Where they are is the word of
// whoever wrote the card, so only two kinds of places count: the origin that the
// card itself came from, and those that an operator named.
type cardKeys struct {
	*look
	tried     map[string]bool // addresses of this card
	withdrawn bool            // a key that speaks for the agent is not published any more
}

// Keys implements cardsign.KeySource.
func (k *cardKeys) Keys(ctx context.Context, h cardsign.Hint) ([]jose.JSONWebKey, error) {
	place, err := k.place(h)
	if err != nil {
		return nil, err
	}
	if k.tried[place] = true; len(k.tried) > maxKeySets {
		return nil, fmt.Errorf("the card names more than %d key sets", maxKeySets)
	}
	set, err := k.keySets.get(ctx, place, h.KeyID)
	if err != nil {
		return nil, err
	}
	keys, err := set.Keys(ctx, h)
	if err != nil && slices.ContainsFunc(k.request.Pins, func(p registry.Pin) bool { return p.KeyID == h.KeyID }) {
		k.withdrawn = true
	}
	return keys, err
}

// place is the address of the key set, if it may be asked.
func (k *cardKeys) place(h cardsign.Hint) (string, error) {
	own, err := registry.OriginOf(k.found.CardURL)
	if err != nil {
		return "", errors.New("the card has no origin")
	}
	if h.JKU == "" {
		return own + keySetPath, nil
	}
	if _, err := netguard.ParseURL(h.JKU); err != nil {
		return "", fmt.Errorf("its jku is no address: %w", err)
	}
	origin, err := registry.OriginOf(h.JKU)
	if err != nil {
		return "", fmt.Errorf("its jku is no address: %w", err)
	}
	if origin != own && !slices.Contains(k.options.KeyProviders, origin) {
		return "", fmt.Errorf("its key set is at %s, which is neither the card's own origin nor in agents.key_providers", plain(origin))
	}
	return h.JKU, nil
}

// keySets keeps key sets by their addresses.
type keySets struct {
	fetch *netguard.FetchClient
	now   func() time.Time

	mu sync.Mutex
	by map[string]*keySet // guarded by mu
}

type keySet struct {
	mu    sync.Mutex // held over the fetch: whoever needs the set waits for it
	set   cardsign.KeySet
	tag   string
	at    time.Time // of the last good fetch; zero: none
	asked time.Time // of the last fetch
	err   error     // of the last fetch
}

// get gives the set at an address that has the key, as far as it is known or may
// be asked for now.
func (s *keySets) get(ctx context.Context, address, kid string) (cardsign.KeySet, error) {
	s.mu.Lock()
	one := s.by[address]
	if one == nil {
		if len(s.by) >= keptKeySets {
			clear(s.by)
		}
		one = &keySet{}
		s.by[address] = one
	}
	s.mu.Unlock()
	one.mu.Lock()
	defer one.mu.Unlock()
	now := s.now()
	_, missing := one.set.Keys(ctx, cardsign.Hint{KeyID: kid})
	if one.err == nil && !one.at.IsZero() && now.Sub(one.at) < keySetFresh && missing == nil {
		return one.set, nil
	}
	if one.asked.IsZero() || now.Sub(one.asked) >= keySetAgain {
		one.asked = now
		one.err = one.refresh(ctx, s, address)
	}
	if one.err != nil {
		return nil, one.err
	}
	return one.set, nil
}

func (k *keySet) refresh(ctx context.Context, s *keySets, address string) error {
	header := http.Header{"Accept": {"application/json"}}
	if k.tag != "" {
		header.Set("If-None-Match", k.tag)
	}
	response, err := s.fetch.Fetch(ctx, address, netguard.Request{Header: header, AnyStatus: true})
	now := s.now()
	switch {
	case err != nil:
		return errors.New("the key set cannot be fetched: " + whyNot(err))
	case response.Status == http.StatusNotModified && k.tag != "":
		k.at = now
		return nil
	case response.Status != http.StatusOK:
		return fmt.Errorf("the key set cannot be fetched: HTTP %d", response.Status)
	}
	set, err := cardsign.ParseKeySet(response.Body, now)
	if err != nil {
		return errors.New(plain(err.Error()))
	}
	k.set, k.at, k.tag = set, now, ""
	if tag := response.Header.Get("ETag"); len(tag) <= maxETagBytes && !strings.ContainsAny(tag, "\r\n") {
		k.tag = tag
	}
	return nil
}

// whyNot says why no answer came, without repeating it.
func whyNot(err error) string {
	switch netguard.ReasonOf(err) {
	case netguard.ReasonRefused:
		return refusal(err)
	case netguard.ReasonTimeout:
		return "no answer in time"
	case netguard.ReasonStatus:
		return "the address redirects, and redirects are not followed"
	}
	return "nothing that answers there is one"
}
