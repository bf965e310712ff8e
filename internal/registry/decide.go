package registry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/parley-mesh/parley/internal/parley"
)

// Limits of what an operator may write to an agent.
const (
	maxAllowed     = 256 // owners on one allow list
	maxReasonBytes = 500
)

// occasion is why an agent was looked at.
type occasion uint8

const (
	scheduled         occasion = iota // told of only where something differs
	demanded                          // always told of
	credentialChanged                 // demanded, with a credential just set or removed
)

// admit decides the agent of a registration whose card passed.
func admit(req AddRequest, in *Inspection, now time.Time) (*Agent, []parley.Event) {
	a := &Agent{
		Name: req.Name, Owner: req.Owner, Environment: req.Environment, Kind: KindA2A, URL: req.URL,
		Status: Unproven, Use: -1, Allow: slices.Clone(req.Allow),
		CheckedAt: now, CreatedAt: now, UpdatedAt: now,
	}
	a.takeCard(in)
	a.takeSignature(in.Signature, "", now)
	a.CardURL = in.CardURL
	a.judge(in, credentialChanged)
	return a, []parley.Event{a.event(EventAdded, now, nil)}
}

// refresh decides what an agent becomes after a look at it that found a card
// that passed:
//
//   - the same card: the probe's results are taken; a card that waited for
//     approval is dropped, since the agent no longer shows it;
//   - another card at no new origin: taken at once;
//   - another card that names a new origin, or that no pinned key has signed: it
//     waits for approval, while the old one keeps serving.
//
// The probe alone takes no active agent out of service, except where its
// credential has just changed: a moment's failure is what calls and their
// records are for.
func refresh(old *Agent, in *Inspection, why occasion, now time.Time) (*Agent, []parley.Event) {
	a := old.clone()
	a.CheckedAt, a.CheckErr = now, ""
	var events []parley.Event
	switch doubts := old.doubts(in); {
	case in.Hash == old.CardHash:
		a.Pending = nil
		a.takeCard(in)
		a.takeSignature(in.Signature, old.CardHash, now)
		a.judge(in, why)
		events = a.signatureEvent(old, now)
	case doubts != "":
		if a.wait(in, doubts, now) {
			events = append(events, a.event(EventPending, now, nil))
		}
	default:
		a.Pending = nil
		a.takeCard(in)
		a.takeSignature(in.Signature, old.CardHash, now)
		a.judge(in, why)
		events = append(events, a.event(EventCardChanged, now, func(d *EventData) { d.Before = old.CardHash }))
	}
	return a.tell(old, events, why, now)
}

// lost decides what an agent becomes after a look at it that found no card
// that passes: it stays as it is, and the problem is shown.
func lost(old *Agent, problem string, why occasion, now time.Time) (*Agent, []parley.Event) {
	a := old.clone()
	a.CheckedAt, a.CheckErr = now, problem
	return a.tell(old, nil, why, now)
}

// tell adds the event of the look itself where somebody asked for it or where
// what was found differs from what was known.
func (a *Agent) tell(old *Agent, events []parley.Event, why occasion, now time.Time) (*Agent, []parley.Event) {
	differs := a.Status != old.Status || a.Use != old.Use || a.CheckErr != old.CheckErr ||
		(a.Pending == nil) != (old.Pending == nil) || !slices.Equal(a.Interfaces, old.Interfaces)
	if len(events) == 0 && (why != scheduled || differs) {
		events = []parley.Event{a.event(EventRefreshed, now, nil)}
	}
	if len(events) > 0 {
		a.UpdatedAt = now
	}
	return a, events
}

// takeCard puts the inspected card in use, all but the choice of interface.
func (a *Agent) takeCard(in *Inspection) {
	a.Card, a.CardHash, a.CardETag = in.Card, in.Hash, in.ETag
	a.Title, a.Description, a.AgentVersion = in.Title, in.Description, in.AgentVersion
	a.Warnings = in.warnings()
}

// judge takes the probe's results: which interface to use, and whether the
// agent is proven.
func (a *Agent) judge(in *Inspection, why occasion) {
	used := a.inUse()
	a.Interfaces = slices.Clone(in.Interfaces)
	a.Use = in.Use
	if a.Use < 0 {
		a.CheckErr = unproven(a.Name, in.Interfaces)
		if why != credentialChanged || !anyUnauthorized(in.Interfaces) {
			a.Use = indexOf(in.Interfaces, used)
		}
	}
	a.settleStatus()
}

// settleStatus makes the status follow from the interface in use; a suspended
// agent stays so.
func (a *Agent) settleStatus() {
	switch {
	case a.Status == Suspended:
	case a.Use >= 0:
		a.Status, a.Reason = Active, ""
	default:
		a.Status, a.Reason = Unproven, unproven(a.Name, a.Interfaces)
	}
}

// wait makes the inspected card wait for approval; false if it already does.
func (a *Agent) wait(in *Inspection, doubts string, now time.Time) bool {
	if a.Pending != nil && a.Pending.CardHash == in.Hash {
		return false
	}
	a.Pending = &Pending{
		Card: in.Card, CardHash: in.Hash, CardETag: in.ETag,
		Title: in.Title, Description: in.Description, AgentVersion: in.AgentVersion,
		Why: doubts, Signature: in.Signature,
		Interfaces: slices.Clone(in.Interfaces), Use: in.Use, Warnings: in.warnings(), Since: now,
	}
	return true
}

// doubts says why another card may not be taken without approval; empty for
// nothing.
func (a *Agent) doubts(in *Inspection) string {
	var all []string
	if fresh := newOrigins(a.Interfaces, in.Interfaces); len(fresh) > 0 {
		all = append(all, "the card names addresses at a new origin: "+strings.Join(fresh, ", "))
	}
	if why := a.unvouched(in.Signature); why != "" {
		all = append(all, why)
	}
	return strings.Join(all, "; ")
}

// approve puts the waiting card in use. The keys that signed it speak for the
// agent from then on; if none did, none does.
func approve(old *Agent, now time.Time) (*Agent, []parley.Event, error) {
	if old.Pending == nil {
		return nil, nil, parley.E("registry.approve", parley.Conflict, parley.Subject(old.Name), "no card of this agent waits for approval", nil)
	}
	a, p := old.clone(), old.Pending
	a.Card, a.CardHash, a.CardETag = p.Card, p.CardHash, p.CardETag
	a.Title, a.Description, a.AgentVersion = p.Title, p.Description, p.AgentVersion
	a.Interfaces, a.Use, a.Warnings = slices.Clone(p.Interfaces), p.Use, slices.Clone(p.Warnings)
	a.Pending, a.UpdatedAt, a.Pins = nil, now, nil
	a.takeSignature(p.Signature, old.CardHash, now)
	a.settleStatus()
	return a, []parley.Event{a.event(EventApproved, now, func(d *EventData) { d.Before = old.CardHash })}, nil
}

// suspendedUnsaid is the reason of a suspension for which none was given.
const suspendedUnsaid = "suspended by an operator"

// suspend takes the agent out of service until resume. Callers read the
// reason, in one line.
func suspend(old *Agent, reason string, now time.Time) (*Agent, []parley.Event, error) {
	if len(reason) > maxReasonBytes {
		return nil, nil, parley.E("registry.suspend", parley.Invalid, parley.Subject(old.Name), fmt.Sprintf("reason is %d bytes long: at most %d are allowed", len(reason), maxReasonBytes), nil)
	}
	a := old.clone()
	if reason = oneLine(reason); reason == "" {
		reason = suspendedUnsaid
	}
	if old.Status == Suspended && old.Reason == reason {
		return a, nil, nil
	}
	a.Status, a.Reason, a.UpdatedAt = Suspended, reason, now
	return a, []parley.Event{a.event(EventSuspended, now, nil)}, nil
}

// oneLine is text without line breaks and other characters that are not seen.
func oneLine(text string) string {
	visible := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r), unicode.IsControl(r):
			return ' '
		case unicode.Is(unicode.Cf, r), r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, text)
	return strings.Join(strings.Fields(visible), " ")
}

// resume takes back a suspension: the agent is what its last probe says.
func resume(old *Agent, now time.Time) (*Agent, []parley.Event, error) {
	a := old.clone()
	if old.Status != Suspended {
		return a, nil, nil
	}
	a.Status, a.UpdatedAt = Unproven, now
	a.settleStatus()
	return a, []parley.Event{a.event(EventResumed, now, nil)}, nil
}

// allow lets callers of owner call the agent.
func allow(old *Agent, owner parley.OwnerName, now time.Time) (*Agent, []parley.Event, error) {
	a := old.clone()
	if slices.Contains(a.Allow, owner) {
		return a, nil, nil
	}
	if len(a.Allow) >= maxAllowed {
		return nil, nil, parley.E("registry.allow", parley.Exhausted, parley.Subject(old.Name), fmt.Sprintf("%d owners are allowed already: disallow one first", maxAllowed), nil)
	}
	a.Allow = append(a.Allow, owner)
	slices.Sort(a.Allow)
	a.UpdatedAt = now
	return a, []parley.Event{a.event(EventAllowed, now, func(d *EventData) { d.Grantee = owner })}, nil
}

// disallow takes owner off the allow list.
func disallow(old *Agent, owner parley.OwnerName, now time.Time) (*Agent, []parley.Event, error) {
	a := old.clone()
	i := slices.Index(a.Allow, owner)
	if i < 0 {
		return a, nil, nil
	}
	a.Allow, a.UpdatedAt = slices.Delete(a.Allow, i, i+1), now
	return a, []parley.Event{a.event(EventDisallowed, now, func(d *EventData) { d.Grantee = owner })}, nil
}

// setAuthPolicy says whether the agent may ask callers for a credential.
func setAuthPolicy(old *Agent, p AuthPolicy, now time.Time) (*Agent, []parley.Event, error) {
	a := old.clone()
	if cmp.Or(a.AuthRequired, AuthPass) == p {
		return a, nil, nil
	}
	a.AuthRequired, a.UpdatedAt = p, now
	return a, []parley.Event{a.event(EventAuthPolicy, now, func(d *EventData) { d.AuthRequired = p })}, nil
}

// inUse is the interface calls go to; the zero value if there is none.
func (a *Agent) inUse() Interface {
	if a.Use >= 0 && a.Use < len(a.Interfaces) {
		return a.Interfaces[a.Use]
	}
	return Interface{}
}

// indexOf finds the interface that is the same as used, whatever the probe
// says of it now; -1 if it is gone or there was none.
func indexOf(all []Interface, used Interface) int {
	if used.URL == "" {
		return -1
	}
	return slices.IndexFunc(all, func(i Interface) bool {
		return i.URL == used.URL && i.Binding == used.Binding && i.Version == used.Version && i.Tenant == used.Tenant
	})
}

// newOrigins lists the origins that after names and before does not. All
// interfaces count, also those the mesh does not speak yet: one day it will.
func newOrigins(before, after []Interface) []string {
	known := make(map[string]bool, len(before))
	for _, i := range before {
		known[originOrText(i.URL)] = true
	}
	var fresh []string
	for _, i := range after {
		if o := originOrText(i.URL); !known[o] {
			known[o] = true
			fresh = append(fresh, o)
		}
	}
	return fresh
}

// originOrText is the origin of an http address, and of any other (host:port)
// the text itself.
func originOrText(address string) string {
	if o, err := OriginOf(address); err == nil {
		return o
	}
	return strings.ToLower(address)
}

func anyUnauthorized(all []Interface) bool {
	return slices.ContainsFunc(all, func(i Interface) bool { return i.Probe == ProbeUnauthorized })
}

// unproven says why no interface is proven, and what to do.
func unproven(name parley.AgentName, all []Interface) string {
	if anyUnauthorized(all) {
		return fmt.Sprintf("the agent wants credentials, or refuses those it was shown: parley agent auth %s", name)
	}
	for _, i := range all {
		if i.Probe != "" && i.Probe != ProbeOK && i.Probe != ProbeNotSpoken {
			return fmt.Sprintf("no interface answered the binding probe; %s: %s", i.URL, i.Probe)
		}
	}
	return "no interface answered the binding probe"
}
