package registry

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mesh/parley/internal/parley"
)

var (
	day  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	next = day.Add(time.Hour)
)

// at makes an interface with what the probe found there.
func at(url, probe string) Interface {
	return Interface{URL: url, Binding: "JSONRPC", Version: "1.0", Probe: probe}
}

// found makes an inspection of a card of that hash.
func found(hash string, interfaces ...Interface) *Inspection {
	in := &Inspection{CardURL: "https://a.example/card", Card: []byte("{" + hash + "}"), Hash: hash, ETag: `"` + hash + `"`, Title: "card " + hash, Interfaces: interfaces, Use: -1}
	for i, f := range interfaces {
		if f.Probe == ProbeOK {
			in.Use = i
			break
		}
	}
	return in
}

// registered is an agent as it is right after its registration.
func registered(in *Inspection) *Agent {
	a, _ := admit(AddRequest{Name: "echo", Owner: "blue", Environment: parley.Dev, URL: "a.example"}, in, day)
	a.Version = 1
	return a
}

func kinds(events []parley.Event) string {
	var all []string
	for _, e := range events {
		all = append(all, e.Type)
	}
	return strings.Join(all, " ")
}

func TestAdmit(t *testing.T) {
	for _, tc := range []struct {
		name   string
		in     *Inspection
		status Status
		use    int
		reason string
	}{
		{"proven", found("h", at("https://a.example/", ProbeOK)), Active, 0, ""},
		{"the first proven in card order", found("h", at("https://a.example/1", "no answer"), at("https://a.example/2", ProbeOK), at("https://a.example/3", ProbeOK)), Active, 1, ""},
		{"wants credentials", found("h", at("https://a.example/", ProbeUnauthorized)), Unproven, -1, "parley agent auth echo"},
		{"answers nothing", found("h", at("b.example:443", ProbeNotSpoken), at("https://a.example/", "connection refused")), Unproven, -1, "https://a.example/: connection refused"},
	} {
		a, events := admit(AddRequest{Name: "echo", Owner: "blue", Environment: parley.Prod, URL: "a.example"}, tc.in, day)
		if a.Status != tc.status || a.Use != tc.use || !strings.Contains(a.Reason, tc.reason) {
			t.Errorf("%s: status %s, use %d, reason %q; want %s, %d, %q", tc.name, a.Status, a.Use, a.Reason, tc.status, tc.use, tc.reason)
		}
		if kinds(events) != EventAdded || events[0].Owner != "blue" || events[0].Environment != parley.Prod || events[0].Subject != "agents/echo" {
			t.Errorf("%s: events %+v", tc.name, events)
		}
	}
}

func TestRefresh(t *testing.T) {
	const here, path, there = "https://a.example/", "https://a.example:443/v2", "https://b.example/"
	for _, tc := range []struct {
		name   string
		before *Inspection
		after  *Inspection
		why    occasion
		// what the agent is then
		hash    string
		status  Status
		use     int
		pending string
		problem string // part of CheckErr
		events  string
	}{
		{name: "nothing new, by schedule", before: found("1", at(here, ProbeOK)), after: found("1", at(here, ProbeOK)), why: scheduled,
			hash: "1", status: Active},
		{name: "nothing new, on demand", before: found("1", at(here, ProbeOK)), after: found("1", at(here, ProbeOK)), why: demanded,
			hash: "1", status: Active, events: EventRefreshed},
		{name: "a changed card at the same origin is taken at once", before: found("1", at(here, ProbeOK)), after: found("2", at(path, ProbeOK)), why: scheduled,
			hash: "2", status: Active, events: EventCardChanged},
		{name: "fewer origins are no new ones", before: found("1", at(here, ProbeOK), at(there, "no answer")), after: found("2", at(there, ProbeOK)), why: scheduled,
			hash: "2", status: Active, events: EventCardChanged},
		{name: "another origin waits while the old card serves", before: found("1", at(here, ProbeOK)), after: found("2", at(there, ProbeOK)), why: scheduled,
			hash: "1", status: Active, pending: "2", events: EventPending},
		{name: "one more origin waits", before: found("1", at(here, ProbeOK)), after: found("2", at(here, ProbeOK), at(there, ProbeOK)), why: demanded,
			hash: "1", status: Active, pending: "2", events: EventPending},
		{name: "another port is another origin", before: found("1", at(here, ProbeOK)), after: found("2", at("https://a.example:8443/", ProbeOK)), why: scheduled,
			hash: "1", status: Active, pending: "2", events: EventPending},
		{name: "another scheme is another origin", before: found("1", at(here, ProbeOK)), after: found("2", at("http://a.example/", ProbeOK)), why: scheduled,
			hash: "1", status: Active, pending: "2", events: EventPending},
		{name: "an interface the mesh does not speak counts too", before: found("1", at(here, ProbeOK)), after: found("2", at(here, ProbeOK), Interface{URL: "b.example:443", Binding: "GRPC"}), why: scheduled,
			hash: "1", status: Active, pending: "2", events: EventPending},
		{name: "a moment's failure leaves an active agent active", before: found("1", at(here, ProbeOK)), after: found("1", at(here, "HTTP 503")), why: scheduled,
			hash: "1", status: Active, problem: "HTTP 503", events: EventRefreshed},
		{name: "so does a moment's refusal", before: found("1", at(here, ProbeOK)), after: found("1", at(here, ProbeUnauthorized)), why: scheduled,
			hash: "1", status: Active, problem: "wants credentials", events: EventRefreshed},
		{name: "and with a changed card that keeps the interface", before: found("1", at(here, ProbeOK)), after: found("2", at(path, "HTTP 503"), at(here, "HTTP 503")), why: scheduled,
			hash: "2", status: Active, use: 1, problem: "HTTP 503", events: EventCardChanged},
		{name: "a changed card without it and nothing proven", before: found("1", at(here, ProbeOK)), after: found("2", at(path, "HTTP 503")), why: scheduled,
			hash: "2", status: Unproven, use: -1, problem: "HTTP 503", events: EventCardChanged},
		{name: "another interface is proven now", before: found("1", at(here, ProbeOK), at(path, ProbeOK)), after: found("1", at(here, "HTTP 503"), at(path, ProbeOK)), why: scheduled,
			hash: "1", status: Active, use: 1, events: EventRefreshed},
		{name: "proven at last", before: found("1", at(here, "HTTP 503")), after: found("1", at(here, ProbeOK)), why: scheduled,
			hash: "1", status: Active, events: EventRefreshed},
		{name: "proven by its credential", before: found("1", at(here, ProbeUnauthorized)), after: found("1", at(here, ProbeOK)), why: credentialChanged,
			hash: "1", status: Active, events: EventRefreshed},
		{name: "still refused with a new credential", before: found("1", at(here, ProbeOK)), after: found("1", at(here, ProbeUnauthorized)), why: credentialChanged,
			hash: "1", status: Unproven, use: -1, problem: "refuses those it was shown", events: EventRefreshed},
		{name: "away while the credential changed", before: found("1", at(here, ProbeOK)), after: found("1", at(here, "no answer")), why: credentialChanged,
			hash: "1", status: Active, problem: "no answer", events: EventRefreshed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := registered(tc.before)
			untouched := old.clone()
			a, events := refresh(old, tc.after, tc.why, next)
			pending := ""
			if a.Pending != nil {
				pending = a.Pending.CardHash
			}
			if a.CardHash != tc.hash || a.Status != tc.status || a.Use != tc.use || pending != tc.pending || kinds(events) != tc.events {
				t.Errorf("card %q, status %s, use %d, pending %q, events %q;\nwant %q, %s, %d, %q, %q",
					a.CardHash, a.Status, a.Use, pending, kinds(events), tc.hash, tc.status, tc.use, tc.pending, tc.events)
			}
			if (tc.problem == "") != (a.CheckErr == "") || !strings.Contains(a.CheckErr, tc.problem) {
				t.Errorf("CheckErr = %q, want %q in it", a.CheckErr, tc.problem)
			}
			if !a.CheckedAt.Equal(next) || a.UpdatedAt.Equal(next) != (tc.events != "") {
				t.Errorf("checked %v, updated %v", a.CheckedAt, a.UpdatedAt)
			}
			if diff := cmp.Diff(untouched, old); diff != "" {
				t.Errorf("the stored agent was written to:\n%s", diff)
			}
		})
	}
}

func TestWaitingCard(t *testing.T) {
	moved := found("2", at("https://b.example/", ProbeOK))
	a, _ := refresh(registered(found("1", at("https://a.example/", ProbeOK))), moved, scheduled, next)
	if !strings.Contains(a.Pending.Why, "https://b.example:443") || a.Interfaces[0].URL != "https://a.example/" {
		t.Fatalf("pending %+v, interfaces %v", a.Pending, a.Interfaces)
	}

	again, events := refresh(a, moved, scheduled, next.Add(time.Hour))
	if len(events) != 0 || !again.Pending.Since.Equal(next) {
		t.Errorf("seen twice: events %q, since %v; want none, %v", kinds(events), again.Pending.Since, next)
	}

	approved, events, err := approve(a, next)
	if err != nil || kinds(events) != EventApproved {
		t.Fatalf("approve: %q, %v", kinds(events), err)
	}
	if approved.Pending != nil || approved.CardHash != "2" || approved.Title != "card 2" || approved.Interfaces[approved.Use].URL != "https://b.example/" || approved.CardETag != `"2"` {
		t.Errorf("approved: %+v", approved)
	}
	var data EventData
	if err := json.Unmarshal(events[0].Data, &data); err != nil || data.Before != "1" || data.CardHash != "2" {
		t.Errorf("approved tells %s, %v", events[0].Data, err)
	}

	back, events := refresh(a, found("1", at("https://a.example/", ProbeOK)), scheduled, next)
	if back.Pending != nil || kinds(events) != EventRefreshed {
		t.Errorf("the agent shows its old card again: pending %v, events %q", back.Pending, kinds(events))
	}
	if _, _, err := approve(back, next); parley.KindOf(err) != parley.Conflict {
		t.Errorf("approve without a waiting card: %v", err)
	}
}

func TestApprovedWithoutProofIsUnproven(t *testing.T) {
	a, _ := refresh(registered(found("1", at("https://a.example/", ProbeOK))), found("2", at("https://b.example/", ProbeUnauthorized)), scheduled, next)
	a, _, err := approve(a, next)
	if err != nil || a.Status != Unproven || !strings.Contains(a.Reason, "credentials") {
		t.Errorf("status %s, reason %q, %v", a.Status, a.Reason, err)
	}
}

func TestGoneAgentStays(t *testing.T) {
	old := registered(found("1", at("https://a.example/", ProbeOK)))
	a, events := lost(old, "nothing answered", scheduled, next)
	if a.Status != Active || a.CardHash != "1" || a.CheckErr != "nothing answered" || kinds(events) != EventRefreshed {
		t.Errorf("status %s, CheckErr %q, events %q", a.Status, a.CheckErr, kinds(events))
	}
	if _, events := lost(a, "nothing answered", scheduled, next.Add(time.Hour)); len(events) != 0 {
		t.Errorf("still gone is told again: %q", kinds(events))
	}
	if back, events := refresh(a, found("1", at("https://a.example/", ProbeOK)), scheduled, next); back.CheckErr != "" || kinds(events) != EventRefreshed {
		t.Errorf("back: CheckErr %q, events %q", back.CheckErr, kinds(events))
	}
}

func TestSuspension(t *testing.T) {
	proven, wants := found("1", at("https://a.example/", ProbeOK)), found("1", at("https://a.example/", ProbeUnauthorized))
	a, events, err := suspend(registered(proven), "looks odd", next)
	if err != nil || a.Status != Suspended || a.Reason != "looks odd" || kinds(events) != EventSuspended {
		t.Fatalf("suspend: %s %q %q %v", a.Status, a.Reason, kinds(events), err)
	}
	if odd, _, _ := suspend(registered(proven), " looks\r\n\x1b[2Jodd\u202e ", next); odd.Reason != "looks [2Jodd" {
		t.Errorf("the reason that callers read is %q", odd.Reason)
	}
	if _, events, _ := suspend(a, "looks odd", next); len(events) != 0 {
		t.Errorf("suspending twice is told twice: %q", kinds(events))
	}
	seen, _ := refresh(a, found("2", at("https://a.example/", ProbeOK)), demanded, next)
	if seen.Status != Suspended || seen.Reason != "looks odd" || seen.CardHash != "2" {
		t.Errorf("a refresh of a suspended agent: %s %q, card %s", seen.Status, seen.Reason, seen.CardHash)
	}
	if r, events, _ := resume(seen, next); r.Status != Active || r.Reason != "" || kinds(events) != EventResumed {
		t.Errorf("resume: %s %q %q", r.Status, r.Reason, kinds(events))
	}
	unproven, _, _ := suspend(registered(wants), "", next)
	if r, _, _ := resume(unproven, next); r.Status != Unproven || !strings.Contains(r.Reason, "credentials") {
		t.Errorf("resume of an unproven agent: %s %q", r.Status, r.Reason)
	}
	if r, events, _ := resume(registered(proven), next); r.Status != Active || len(events) != 0 {
		t.Errorf("resume of an active agent: %s, %q", r.Status, kinds(events))
	}
	if _, _, err := suspend(registered(proven), strings.Repeat("x", 501), next); parley.KindOf(err) != parley.Invalid {
		t.Errorf("a long reason: %v", err)
	}
}

func TestAllowList(t *testing.T) {
	a := registered(found("1", at("https://a.example/", ProbeOK)))
	if a.MayCall("red", parley.Dev) || !a.MayCall("blue", parley.Dev) || a.MayCall("blue", parley.Prod) {
		t.Error("before: only the own owner in the own environment may call")
	}
	a, events, err := allow(a, "red", next)
	if err != nil || kinds(events) != EventAllowed || !a.MayCall("red", parley.Prod) {
		t.Errorf("allow: %q %v", kinds(events), err)
	}
	if _, events, _ := allow(a, "red", next); len(events) != 0 {
		t.Errorf("allowed twice: %q", kinds(events))
	}
	a, events, _ = disallow(a, "red", next)
	if kinds(events) != EventDisallowed || a.MayCall("red", parley.Dev) {
		t.Errorf("disallow: %q", kinds(events))
	}
	for i := range maxAllowed {
		a.Allow = append(a.Allow, parley.OwnerName(strings.Repeat("x", i%60+1)))
	}
	if _, _, err := allow(a, "red", next); parley.KindOf(err) != parley.Exhausted {
		t.Errorf("a full list: %v", err)
	}
}

func TestPlan(t *testing.T) {
	const every = 10 * time.Minute
	p := plan{}
	for i, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute, 40 * time.Minute, 40 * time.Minute} {
		if p = p.after(true, day, every, 0); p.at.Sub(day) != want {
			t.Errorf("failure %d waits %v, want %v", i+1, p.at.Sub(day), want)
		}
	}
	for range 100 {
		if p = p.after(true, day, every, -1); p.at.Sub(day) != 36*time.Minute {
			t.Fatalf("many failures wait %v", p.at.Sub(day))
		}
	}
	if p = p.after(false, day, every, 0.5); p.at.Sub(day) != 10*time.Minute+30*time.Second || p.fails != 0 {
		t.Errorf("a success waits %v, fails %d", p.at.Sub(day), p.fails)
	}
}
