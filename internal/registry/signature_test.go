package registry

import (
	"strings"
	"testing"
	"time"
)

// signedBy makes the inspection find signatures of these keys.
func (i *Inspection) signedBy(keys ...string) *Inspection {
	i.Signature = CardSignature{State: Verified}
	for _, k := range keys {
		i.Signature.Keys = append(i.Signature.Keys, CardKey{KeyID: "kid of " + k, Thumbprint: k, Algorithm: "ES256", Form: "presence"})
	}
	return i
}

func (i *Inspection) signature(state SignatureState) *Inspection {
	i.Signature = CardSignature{State: state, Problem: "for a reason"}
	return i
}

func card(hash string) *Inspection { return found(hash, at("https://a.example/", ProbeOK)) }

func pinned(a *Agent) string {
	var all []string
	for _, p := range a.Pins {
		all = append(all, p.Thumbprint)
	}
	return strings.Join(all, " ")
}

// TestPinnedKey: what speaks for an agent at first goes on to, or hands over by a
// card that it has signed.
func TestPinnedKey(t *testing.T) {
	for _, test := range []struct {
		name          string
		first, second *Inspection
		waits         string // why; empty: it is taken
		pins          string // afterwards
		events        string
	}{
		{"the same key", card("1").signedBy("A"), card("2").signedBy("A"), "", "A", EventCardChanged},
		{"another key", card("1").signedBy("A"), card("2").signedBy("B"), "signed with kid of B alone", "A", EventPending},
		{"the signature is taken out", card("1").signedBy("A"), card("2").signature(Unsigned), "this one is not signed", "A", EventPending},
		{"the signature is wrong", card("1").signedBy("A"), card("2").signature(Wrong), "no signature of this one holds: for a reason", "A", EventPending},
		{"no key is to be had", card("1").signedBy("A"), card("2").signature(Unverified), "no signature of this one holds", "A", EventPending},
		{"the key is withdrawn", card("1").signedBy("A"), card("2").signature(Withdrawn), "no longer published", "A", EventPending},
		{"the old key signs for the new one", card("1").signedBy("A"), card("2").signedBy("B", "A"), "", "B A", EventCardChanged},
		{"the second of two keys", card("1").signedBy("A", "B"), card("2").signedBy("B"), "", "B", EventCardChanged},
		{"signed for the first time", card("1").signature(Unsigned), card("2").signedBy("A"), "", "A", EventCardChanged},
		{"never signed", card("1").signature(Unsigned), card("2").signature(Unsigned), "", "", EventCardChanged},
		{"wrong from the beginning", card("1").signature(Wrong), card("2").signature(Wrong), "", "", EventCardChanged},
	} {
		t.Run(test.name, func(t *testing.T) {
			old := registered(test.first)
			a, events := refresh(old, test.second, scheduled, next)
			if kinds(events) != test.events || pinned(a) != test.pins {
				t.Errorf("events %s, pins %q; want %s, %q", kinds(events), pinned(a), test.events, test.pins)
			}
			switch {
			case test.waits == "" && (a.Pending != nil || a.CardHash != "2"):
				t.Errorf("card %s is in use, waiting %+v", a.CardHash, a.Pending)
			case test.waits != "" && (a.Pending == nil || a.CardHash != "1" || !strings.Contains(a.Pending.Why, test.waits) || !a.Signed()):
				t.Errorf("card %s is in use, signed %v, waiting %+v; want one that waits because %q", a.CardHash, a.Signed(), a.Pending, test.waits)
			}
			if a.Pending == nil {
				return
			}
			approved, _, err := approve(a, next)
			if err != nil || approved.CardHash != "2" || approved.Signature.State != test.second.Signature.State {
				t.Fatalf("approved: %+v, %v", approved, err)
			}
			var want []string
			for _, k := range test.second.Signature.Keys {
				want = append(want, k.Thumbprint)
			}
			if got := pinned(approved); got != strings.Join(want, " ") {
				t.Errorf("after the approval %q is pinned, want %q", got, want)
			}
		})
	}
}

// TestSameCardLater: what is known of a card's signature changes only for a reason,
// and then it is told.
func TestSameCardLater(t *testing.T) {
	for _, test := range []struct {
		name  string
		later *Inspection
		state SignatureState
		since time.Time
		tells string
	}{
		{"as before", card("1").signedBy("A"), Verified, day, ""},
		{"the key cannot be asked for", card("1").signature(Unverified), Verified, day, ""},
		{"the key is withdrawn", card("1").signature(Withdrawn), Withdrawn, next, EventSignature},
		{"the key was replaced under its name", card("1").signature(Wrong), Wrong, next, EventSignature},
	} {
		t.Run(test.name, func(t *testing.T) {
			old := registered(card("1").signedBy("A"))
			a, events := refresh(old, test.later, scheduled, next)
			if a.Signature.State != test.state || !a.Signature.At.Equal(test.since) || pinned(a) != "A" || kinds(events) != test.tells {
				t.Errorf("signature %+v, pins %s, events %s; want %s since %v, %q", a.Signature, pinned(a), kinds(events), test.state, test.since, test.tells)
			}
			if a.Signed() != (test.state == Verified) {
				t.Errorf("signed: %v", a.Signed())
			}
		})
	}
}

// TestNarrowerSignature: a card of which the pinned key covers less than before may
// have been changed where it is not covered.
func TestNarrowerSignature(t *testing.T) {
	by := func(hash, form string) *Inspection {
		in := card(hash).signedBy("A")
		in.Signature.Keys[0].Form = form
		return in
	}
	for _, test := range []struct {
		before, after string
		waits         bool
	}{
		{"presence", "stripped", false}, {"stripped", "presence", false}, {"presence", "model", true}, {"presence", "schemeless", true},
		{"stripped", "model", true}, {"model", "schemeless", true}, {"model", "model", false}, {"schemeless", "schemeless", false}, {"schemeless", "presence", false},
	} {
		a, _ := refresh(registered(by("1", test.before)), by("2", test.after), scheduled, next)
		if (a.Pending != nil) != test.waits {
			t.Errorf("from %s to %s: waiting %+v", test.before, test.after, a.Pending)
		}
	}
}

// A card at a new origin waits whoever has signed it.
func TestSignatureDoesNotMoveAnAgent(t *testing.T) {
	old := registered(card("1").signedBy("A"))
	a, _ := refresh(old, found("2", at("https://b.example/", ProbeOK)).signedBy("A"), scheduled, next)
	if a.Pending == nil || !strings.Contains(a.Pending.Why, "new origin") {
		t.Errorf("waiting: %+v", a.Pending)
	}
}
