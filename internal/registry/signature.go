package registry

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// SignatureState is what is known of the signatures of a card.
type SignatureState string

// The states. The zero value is that of an agent that was last looked at before
// signatures were.
const (
	Unsigned   SignatureState = "unsigned"
	Verified   SignatureState = "verified"   // at least one holds
	Unverified SignatureState = "unverified" // signed, and no key was to be had to verify with
	Wrong      SignatureState = "invalid"    // signed, and none holds
	Withdrawn  SignatureState = "withdrawn"  // one held, and its key is no longer published
)

// CardKey is a public key that has verified a card.
type CardKey struct {
	KeyID      string `json:"kid"`
	Thumbprint string `json:"thumbprint"` // RFC 7638: the key itself, whatever it is called
	Algorithm  string `json:"alg"`
	JKU        string `json:"jku,omitempty"`  // where its set is, as the card says
	Form       string `json:"form,omitempty"` // which reading of the card its signature is over
}

// CardSignature is what a look found about the signatures of a card.
type CardSignature struct {
	State SignatureState `json:"state,omitempty"`
	// Keys are those whose signatures hold, in the card's order.
	Keys []CardKey `json:"keys,omitempty"`
	// Problem says what is wrong where none holds.
	Problem string `json:"problem,omitempty"`
	// At is when this card was first found so: it holds still while nothing changes.
	At time.Time `json:"at,omitzero"`
}

// Pin is a key that speaks for an agent: a later card that none of its keys has
// signed waits for approval.
type Pin struct {
	CardKey
	Since time.Time `json:"since"`
}

// Signed reports whether somebody whom the mesh knows answers for the card in use:
// its signature holds, and the key is not withdrawn.
func (a *Agent) Signed() bool { return a.Signature.State == Verified }

// takeSignature puts in use what a look found about the signatures of the card
// that is now in use, whose hash was before.
func (a *Agent) takeSignature(found CardSignature, before string, now time.Time) {
	old := a.Signature
	same := before == a.CardHash
	switch {
	case same && old.State == Verified && found.State == Unverified:
		return // the key could not be asked for just now; the card is the one that was verified
	case same && old.State == found.State && sameKeys(old.Keys, found.Keys):
		found.At = old.At
	default:
		found.At = now
	}
	a.Signature = found
	if found.State == Verified {
		a.pin(found.Keys, now)
	}
}

// pin lets the keys of a card that is taken speak for the agent from now on.
func (a *Agent) pin(keys []CardKey, now time.Time) {
	pins := make([]Pin, 0, len(keys))
	for _, k := range keys {
		p := Pin{CardKey: k, Since: now}
		if i := slices.IndexFunc(a.Pins, func(p Pin) bool { return p.Thumbprint == k.Thumbprint }); i >= 0 {
			p.Since = a.Pins[i].Since
		}
		pins = append(pins, p)
	}
	a.Pins = pins
}

// unvouched says why another card of an agent with pinned keys may not be taken
// without approval; empty where one of them has signed it.
func (a *Agent) unvouched(found CardSignature) string {
	if len(a.Pins) == 0 {
		return ""
	}
	for _, k := range found.Keys {
		i := slices.IndexFunc(a.Pins, func(p Pin) bool { return p.Thumbprint == k.Thumbprint })
		switch {
		case i < 0:
		case leaves(k.Form) > leaves(a.Pins[i].Form):
			return fmt.Sprintf("the signature of %s covered the agent's cards by the form %s, and covers this one by %s only", oneLine(k.KeyID), a.Pins[i].Form, k.Form)
		default:
			return ""
		}
	}
	pinned := make([]string, len(a.Pins))
	for i, p := range a.Pins {
		pinned[i] = oneLine(p.KeyID)
	}
	was := "the agent's cards were signed with " + strings.Join(pinned, ", ") + ", and "
	switch found.State {
	case Verified:
		return was + fmt.Sprintf("this one is signed with %s alone", oneLine(found.Keys[0].KeyID))
	case Unsigned, "":
		return was + "this one is not signed"
	case Withdrawn:
		return was + "the key is no longer published"
	}
	return was + "no signature of this one holds: " + found.Problem
}

// leaves is how much of a card a form leaves out that may mean something: whoever
// passes a card on can change that.
func leaves(form string) int { return slices.Index([]string{"model", "schemeless"}, form) }

func sameKeys(a, b []CardKey) bool {
	return slices.EqualFunc(a, b, func(x, y CardKey) bool { return x.Thumbprint == y.Thumbprint && x.Form == y.Form })
}

// signatureEvent is told where the state of an agent's signature is another one
// than was known.
func (a *Agent) signatureEvent(old *Agent, now time.Time) []parley.Event {
	if old.Signature.State == "" || a.Signature.State == old.Signature.State && sameKeys(a.Signature.Keys, old.Signature.Keys) {
		return nil
	}
	return []parley.Event{a.event(EventSignature, now, func(d *EventData) { d.SignatureBefore = old.Signature.State })}
}
