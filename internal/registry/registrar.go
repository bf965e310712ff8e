package registry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// Limits and defaults of the registrar.
const (
	// DefaultRefreshEvery is how often an agent's card is looked at again.
	DefaultRefreshEvery = 15 * time.Minute
	// DefaultConcurrency is how many agents are looked at at once.
	DefaultConcurrency = 4

	maxURLBytes    = 2048
	maxSaveTries   = 5   // lost compare-and-sets in a row before a change gives up
	maxProblemText = 500 // bytes kept of what a look ran into
)

// Options are what a Registrar works with.
type Options struct {
	Store     Store     // required
	Inspector Inspector // required
	// Turn reports whether this process is the one to look at agents by itself,
	// where several have the same store; nil means always.
	Turn func() bool
	// Directory is told of every change; nil for none.
	Directory *Directory
	// RefreshEvery is the time between scheduled looks at one agent; zero means
	// DefaultRefreshEvery.
	RefreshEvery time.Duration
	// Concurrency is how many agents are looked at at once, by schedule and on
	// demand together; zero means DefaultConcurrency.
	Concurrency int
	// Removed is told of every agent that was removed, before Remove returns:
	// its keys identify nobody any more, and must be forgotten at once. Nil for
	// nobody.
	Removed func(parley.AgentName)
	// InstanceRemoved is told of every instance that was removed; nil for nobody.
	InstanceRemoved func(agent parley.AgentName, instance string)
	Now             func() time.Time // nil means time.Now
	Log             *slog.Logger     // nil means none
}

// Registrar changes what the registry holds: it loads, decides and saves. It is
// safe for concurrent use; two changes of one agent never overwrite each other.
type Registrar struct {
	store     Store
	inspector Inspector
	directory *Directory
	every     time.Duration
	removed   func(parley.AgentName)
	turn      func() bool
	looking   chan struct{} // holds a token per look under way
	now       func() time.Time
	log       *slog.Logger

	instanceGone func(agent parley.AgentName, instance string)
}

// New makes a registrar.
func New(o Options) *Registrar {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Removed == nil {
		o.Removed = func(parley.AgentName) {}
	}
	if o.Turn == nil {
		o.Turn = func() bool { return true }
	}
	if o.InstanceRemoved == nil {
		o.InstanceRemoved = func(parley.AgentName, string) {}
	}
	return &Registrar{
		removed: o.Removed, instanceGone: o.InstanceRemoved, turn: o.Turn,
		store: o.Store, inspector: o.Inspector, directory: o.Directory,
		every:   cmp.Or(o.RefreshEvery, DefaultRefreshEvery),
		looking: make(chan struct{}, cmp.Or(o.Concurrency, DefaultConcurrency)),
		now:     o.Now, log: o.Log,
	}
}

// AddRequest is a registration. Only Name and URL are required.
type AddRequest struct {
	Name        parley.AgentName
	URL         string             // a card's address, a base address or a bare host
	Owner       parley.OwnerName   // empty means parley.DefaultOwner
	Environment parley.Environment // empty means parley.Dev
	Allow       []parley.OwnerName // other owners that may call it
	// Credential is shown to the agent from the first look on; nil for none.
	// Without an Origin it goes to the origin of URL.
	Credential *Credential
}

// Add registers an agent after a look at it. If its card does not pass, nothing
// is stored and the error (parley.Invalid, AgentFailed or Unsupported) names
// every problem; the report tells what was tried either way. An agent that
// wants credentials, or whose interfaces do not answer, is stored as Unproven.
func (r *Registrar) Add(ctx context.Context, req AddRequest) (*Agent, *Report, error) {
	const op = "registry.add"
	req.Owner = cmp.Or(req.Owner, parley.DefaultOwner)
	req.Environment = cmp.Or(req.Environment, parley.Dev)
	slices.Sort(req.Allow)
	req.Allow = slices.Compact(req.Allow)
	if err := r.checkAdd(&req); err != nil {
		return nil, nil, err
	}
	switch _, err := r.store.Agent(ctx, req.Name); {
	case err == nil:
		return nil, nil, parley.E(op, parley.Conflict, parley.Subject(req.Name), fmt.Sprintf("an agent %s exists already: choose another name, or remove it with 'parley agent rm %s'", req.Name, req.Name), nil)
	case parley.KindOf(err) != parley.NotFound:
		return nil, nil, err
	}
	in, err := r.look(ctx, InspectRequest{Agent: req.Name, URL: req.URL, Credential: req.Credential})
	if err != nil {
		return nil, in.report(), err
	}
	a, events := admit(req, in, r.now())
	if err := r.store.SaveAgent(ctx, a, events...); err != nil {
		return nil, in.report(), err
	}
	defer r.changed(a.Name)
	if c := req.Credential; c != nil {
		if err := r.store.SaveCredential(ctx, c, a.authSet(c, r.now())); err != nil {
			return a, in.report(), fmt.Errorf("agent %s is registered, its credential is not stored: %w", a.Name, err)
		}
	}
	r.log.Info("agent registered", "agent", a.Name, "status", a.Status)
	return a, in.report(), nil
}

// checkAdd reports every wrong member of a registration and completes its
// credential.
func (r *Registrar) checkAdd(req *AddRequest) error {
	var wrong []parley.Field
	if err := parley.CheckName("agent", string(req.Name)); err != nil {
		wrong = append(wrong, parley.Field{Path: "name", Problem: err.Error()})
	}
	if err := parley.CheckName("owner", string(req.Owner)); err != nil {
		wrong = append(wrong, parley.Field{Path: "owner", Problem: err.Error()})
	}
	if _, err := parley.ParseEnvironment(string(req.Environment)); err != nil {
		wrong = append(wrong, parley.Field{Path: "environment", Problem: err.Error()})
	}
	wrong = append(wrong, checkURL(req.URL)...)
	if len(req.Allow) > maxAllowed {
		wrong = append(wrong, parley.Field{Path: "allow", Problem: fmt.Sprintf("names %d owners", len(req.Allow)), Fix: fmt.Sprintf("at most %d are allowed", maxAllowed)})
	}
	for _, o := range req.Allow {
		if err := parley.CheckName("owner", string(o)); err != nil {
			wrong = append(wrong, parley.Field{Path: "allow", Problem: err.Error()})
		}
	}
	if req.Credential != nil {
		c := *req.Credential
		c.Agent, c.Owner, c.CreatedAt = req.Name, req.Owner, r.now()
		wrong = append(wrong, c.complete(req.URL, "give the URL with its scheme, or an origin")...)
		req.Credential = &c
	}
	return invalid("registry.add", parley.Subject(req.Name), "this agent cannot be registered", wrong)
}

func checkURL(address string) []parley.Field {
	switch {
	case address == "":
		return []parley.Field{{Path: "url", Problem: "is empty", Fix: "give the agent's card, base address or host"}}
	case len(address) > maxURLBytes:
		return []parley.Field{{Path: "url", Problem: fmt.Sprintf("is %d bytes long", len(address)), Fix: fmt.Sprintf("at most %d are allowed", maxURLBytes)}}
	}
	return nil
}

// complete sets the origin, to that of address where none is given, and
// reports what is wrong with the credential.
func (c *Credential) complete(address, fix string) []parley.Field {
	wrong := c.check()
	if c.Certificate != nil {
		if problem := c.Certificate.checkTime(c.CreatedAt); problem != "" {
			wrong = append(wrong, parley.Field{Path: "certificate.chain", Problem: problem, Fix: "give one that is valid"})
		}
	}
	origin, err := OriginOf(cmp.Or(c.Origin, address))
	if err != nil {
		return append(wrong, parley.Field{Path: "origin", Problem: "it is not clear where the credential may go: " + err.Error(), Fix: fix})
	}
	c.Origin = origin
	return wrong
}

// Refresh looks at the agent and its instances again, now. A card that no longer passes, or an
// agent that is gone, changes nothing but CheckErr and comes back as an error
// together with the agent.
func (r *Registrar) Refresh(ctx context.Context, name parley.AgentName) (*Agent, *Report, error) {
	a, report, err := r.lookAgain(ctx, name, demanded)
	if instances := r.lookInstances(ctx, name); err == nil && instances != nil {
		return a, report, instances
	}
	return a, report, err
}

// lookAgain inspects a stored agent, with the credential stored for it, and
// takes what was found.
func (r *Registrar) lookAgain(ctx context.Context, name parley.AgentName, why occasion) (*Agent, *Report, error) {
	old, err := r.store.Agent(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	cred, err := r.credentialOf(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	in, problem := r.look(ctx, InspectRequest{
		Agent: name, URL: old.CardURL, Exact: true, ETag: old.CardETag, Card: old.Card, Credential: cred, Pins: old.Pins,
	})
	r.noticeExpiry(name, cred, in)
	if problem != nil && ctx.Err() != nil {
		return nil, nil, problem // whoever asked has left: that says nothing about the agent
	}
	a, err := r.change(ctx, name, func(a *Agent, now time.Time) (*Agent, []parley.Event, error) {
		if a.CardURL != old.CardURL || !a.CreatedAt.Equal(old.CreatedAt) {
			return nil, nil, parley.E("registry.refresh", parley.Conflict, parley.Subject(name), "the agent was registered anew meanwhile: refresh it again", nil)
		}
		if problem != nil {
			next, events := lost(a, clip(parley.PublicMessage(problem)), why, now)
			return next, events, nil
		}
		next, events := refresh(a, in, why, now)
		return next, events, nil
	})
	if err != nil {
		return nil, in.report(), err
	}
	return a, in.report(), problem
}

// noticeExpiry says in what a look found that the agent's client certificate
// comes to its end: whoever looks at the agent reads it in time.
func (r *Registrar) noticeExpiry(name parley.AgentName, c *Credential, in *Inspection) {
	what := c.expires(r.now())
	if what == "" || in == nil {
		return
	}
	r.log.Warn("client certificate towards an agent ends", "agent", name, "not_after", c.Certificate.Leaf().NotAfter)
	in.Problems = append(in.Problems, Problem{Level: Warning, Problem: what, Fix: AuthCommand(name, Credential{Kind: Certificate})})
}

// credentialOf gives the stored credential, nil if there is none.
func (r *Registrar) credentialOf(ctx context.Context, name parley.AgentName) (*Credential, error) {
	c, err := r.store.Credential(ctx, name)
	if err != nil && parley.KindOf(err) == parley.NotFound {
		return nil, nil
	}
	return c, err
}

// CheckCard looks at an address without storing anything. The error is what
// would keep the agent from being registered.
func (r *Registrar) CheckCard(ctx context.Context, address string) (*Report, error) {
	if err := invalid("registry.card", "", "this address cannot be looked at", checkURL(address)); err != nil {
		return nil, err
	}
	in, err := r.look(ctx, InspectRequest{URL: address})
	return in.report(), err
}

// Approve puts the card that waits in use. Without one the error is
// parley.Conflict.
func (r *Registrar) Approve(ctx context.Context, name parley.AgentName) (*Agent, error) {
	return r.change(ctx, name, approve)
}

// Suspend takes the agent out of service until Resume; refreshes go on.
func (r *Registrar) Suspend(ctx context.Context, name parley.AgentName, reason string) (*Agent, error) {
	return r.change(ctx, name, func(a *Agent, now time.Time) (*Agent, []parley.Event, error) { return suspend(a, reason, now) })
}

// Resume takes a suspension back. The agent is then what its last probe said:
// Active or Unproven.
func (r *Registrar) Resume(ctx context.Context, name parley.AgentName) (*Agent, error) {
	return r.change(ctx, name, resume)
}

// Allow lets callers of owner call the agent; twice is once.
func (r *Registrar) Allow(ctx context.Context, name parley.AgentName, owner parley.OwnerName) (*Agent, error) {
	if err := parley.CheckName("owner", string(owner)); err != nil {
		return nil, invalid("registry.allow", parley.Subject(name), "this owner cannot be allowed", []parley.Field{{Path: "owner", Problem: err.Error()}})
	}
	return r.change(ctx, name, func(a *Agent, now time.Time) (*Agent, []parley.Event, error) { return allow(a, owner, now) })
}

// Disallow takes owner off the allow list; an owner that is not on it is no
// error.
func (r *Registrar) Disallow(ctx context.Context, name parley.AgentName, owner parley.OwnerName) (*Agent, error) {
	return r.change(ctx, name, func(a *Agent, now time.Time) (*Agent, []parley.Event, error) { return disallow(a, owner, now) })
}

// SetAuthPolicy says whether the agent may ask callers for a credential.
func (r *Registrar) SetAuthPolicy(ctx context.Context, name parley.AgentName, p AuthPolicy) (*Agent, error) {
	if p != AuthPass && p != AuthForbid {
		return nil, invalid("registry.set_auth_policy", parley.Subject(name), "this cannot be set", []parley.Field{{Path: "authRequired", Problem: "must be pass or forbid"}})
	}
	return r.change(ctx, name, func(a *Agent, now time.Time) (*Agent, []parley.Event, error) { return setAuthPolicy(a, p, now) })
}

// Remove forgets the agent, its credential, and the keys with which it called.
// Its calls stay on record.
func (r *Registrar) Remove(ctx context.Context, name parley.AgentName) error {
	a, err := r.store.Agent(ctx, name)
	if err != nil {
		return err
	}
	// Whatever is told of an error, the agent may be gone: the store may have
	// committed when ctx ended.
	defer r.removed(name)
	defer r.changed(name)
	return r.store.DeleteAgent(ctx, name, a.Version, a.event(EventRemoved, r.now(), nil))
}

// change loads the agent, decides and saves, and does so again where somebody
// else saved in between. Deciding no event saves only where the result differs
// in when it was looked at.
func (r *Registrar) change(ctx context.Context, name parley.AgentName, decide func(*Agent, time.Time) (*Agent, []parley.Event, error)) (*Agent, error) {
	var conflict error
	for range maxSaveTries {
		old, err := r.store.Agent(ctx, name)
		if err != nil {
			return nil, err
		}
		a, events, err := decide(old, r.now())
		if err != nil {
			return nil, err
		}
		if len(events) == 0 && a.CheckedAt.Equal(old.CheckedAt) {
			return a, nil
		}
		err = r.store.SaveAgent(ctx, a, events...)
		if err == nil {
			r.changed(name)
			for _, e := range events {
				r.log.Info("agent changed", "agent", name, "event", e.Type, "status", a.Status)
			}
			return a, nil
		}
		if parley.KindOf(err) != parley.Conflict {
			return nil, err
		}
		conflict = err
	}
	return nil, conflict
}

// changed tells the directory.
func (r *Registrar) changed(name parley.AgentName) {
	if r.directory != nil {
		r.directory.Invalidate(name)
	}
}

// look inspects when its turn comes.
func (r *Registrar) look(ctx context.Context, req InspectRequest) (*Inspection, error) {
	select {
	case r.looking <- struct{}{}:
		defer func() { <-r.looking }()
	case <-ctx.Done():
		return nil, parley.E("registry.look", parley.Canceled, parley.Subject(req.Agent), "canceled while waiting for other agents to be looked at", ctx.Err())
	}
	return r.inspector.Inspect(ctx, req)
}

// invalid makes one error of the wrong fields; nil if there are none.
func invalid(op parley.Op, subject parley.Subject, message string, wrong []parley.Field) error {
	if len(wrong) == 0 {
		return nil
	}
	e := parley.E(op, parley.Invalid, subject, message, nil)
	e.Fields = wrong
	return e
}

// clip bounds text that is stored.
func clip(s string) string {
	if len(s) <= maxProblemText {
		return s
	}
	cut := maxProblemText
	for cut > 0 && s[cut]&0xC0 == 0x80 { // not inside a character
		cut--
	}
	return s[:cut] + "…"
}
