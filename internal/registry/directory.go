package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// Target is an agent as calls use it. It is shared between calls and never
// changes: whoever holds one must not write to anything in it.
type Target struct {
	Agent *Agent
	// Interface is the one calls go to, where Ready is nil.
	Interface Interface
	// Binding and Version are what is spoken there, whatever the card's label says.
	// Version has major and minor alone.
	Binding string
	Version string
	// Credential is what to show at the interface; nil for none. It is already
	// known to be for the interface's origin.
	Credential *Credential
	Presented  Presented // Credential as it stands in a request; none for OAuth2, whose tokens come and go
	// TLS shows the credential's client certificate to the agent; nil where it
	// has none. It is for the interface's origin, over every protocol, and TLSID
	// tells two of them apart.
	TLS   *tls.Config
	TLSID string

	// Instance is the instance that this is a target of; nil for the agent's own
	// address.
	Instance *Instance
	// Instances are the targets of the agent's instances; only the agent's own
	// address has them.
	Instances []*Target
}

// Place names the instance as records do: empty for the agent's own address.
func (t *Target) Place() string {
	if t.Instance == nil {
		return ""
	}
	return t.Instance.ID
}

// All are the targets of an agent: its own address, then its instances.
func (t *Target) All() []*Target { return append([]*Target{t}, t.Instances...) }

// At gives the target of an instance, nil where there is none of that id.
func (t *Target) At(place string) *Target {
	if place == t.Place() {
		return t
	}
	for _, one := range t.Instances {
		if one.Place() == place {
			return one
		}
	}
	return nil
}

// Callable is nil where new work can be given to the agent, at its own address
// or an instance; else Ready's error of the former.
func (t *Target) Callable() error {
	err := t.Ready()
	if err == nil || errors.Is(err, ErrSuspended) {
		return err
	}
	for _, one := range t.Instances {
		if one.TakesNew() {
			return nil
		}
	}
	return err
}

// TakesNew reports whether new work may go to the target, as far as the
// registry knows.
func (t *Target) TakesNew() bool {
	return t.Ready() == nil && (t.Instance == nil || t.Instance.Status == InstanceReady)
}

// Seen is when the target was last looked at, and whether that went well.
func (t *Target) Seen() (at time.Time, well bool) {
	if i := t.Instance; i != nil {
		return i.CheckedAt, i.CheckErr == ""
	}
	return t.Agent.CheckedAt, t.Agent.CheckErr == ""
}

// Why an agent cannot be called, as Ready's error wraps it.
var (
	ErrSuspended = errors.New("suspended")
	ErrUnproven  = errors.New("unproven")
)

// Ready reports why the agent cannot be called now, as a parley.Unavailable
// error that wraps ErrSuspended or ErrUnproven, or nil. The reason of a
// suspension is in the message: an operator wrote it for callers. The reason
// why an agent is unproven may name addresses that callers need not know, so
// it is in the cause only.
func (t *Target) Ready() error {
	a := t.Agent
	if t.Interface.URL != "" && (a.Status == Active || a.Status == Unproven && t.Instance != nil) {
		return nil
	}
	message, cause := fmt.Sprintf("agent %s is not proven to answer; its operator can see why", a.Name), ErrUnproven
	switch {
	case a.Status == Suspended && a.Reason == suspendedUnsaid:
		message, cause = fmt.Sprintf("agent %s is %s", a.Name, a.Reason), ErrSuspended
	case a.Status == Suspended:
		message, cause = fmt.Sprintf("agent %s is suspended: %s", a.Name, a.Reason), ErrSuspended
	case a.Reason != "":
		cause = fmt.Errorf("%w: %s", ErrUnproven, a.Reason)
	}
	return parley.E("registry.ready", parley.Unavailable, parley.Subject(a.Name), message, cause)
}

// Directory answers which agent a name means, from memory where it can. It is
// safe for concurrent use. It holds at most as many agents as are registered:
// names that do not exist are not kept.
type Directory struct {
	store Store

	mu         sync.RWMutex
	targets    map[parley.AgentName]*Target
	generation uint64 // grows with every Invalidate
}

// NewDirectory makes an empty directory over store.
func NewDirectory(store Store) *Directory {
	return &Directory{store: store, targets: map[parley.AgentName]*Target{}}
}

// Lookup gives the agent of that name, whatever its status, or a
// parley.NotFound error.
func (d *Directory) Lookup(ctx context.Context, name parley.AgentName) (*Target, error) {
	d.mu.RLock()
	t, generation := d.targets[name], d.generation
	d.mu.RUnlock()
	if t != nil {
		return t, nil
	}
	t, err := d.load(ctx, name)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	// A change since the load began may not be in what was loaded: it serves
	// this call, which began before the change was told, and no other.
	if d.generation == generation {
		d.targets[name] = t
	}
	return t, nil
}

// Invalidate forgets what is known of the agent: the next Lookup asks the
// store. No name at all forgets everything. Registrars call it for their own
// writes, and whoever follows the event feed for those of other processes.
func (d *Directory) Invalidate(names ...parley.AgentName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.generation++
	if len(names) == 0 {
		clear(d.targets)
	}
	for _, n := range names {
		delete(d.targets, n)
	}
}

// load reads an agent and what calls to it need.
func (d *Directory) load(ctx context.Context, name parley.AgentName) (*Target, error) {
	a, err := d.store.Agent(ctx, name)
	if err != nil {
		return nil, err
	}
	c, err := d.store.Credential(ctx, name)
	if err != nil && parley.KindOf(err) != parley.NotFound {
		return nil, err
	}
	if err != nil {
		c = nil
	}
	t, err := newTarget(a, a.inUse(), c)
	if err != nil {
		return nil, err
	}
	instances, err := d.store.Instances(ctx, name)
	if err != nil {
		return nil, err
	}
	for _, i := range instances {
		one, err := newTarget(a, i.inUse(), i.allowed(c))
		if err != nil {
			return nil, err
		}
		one.Instance = i
		t.Instances = append(t.Instances, one)
	}
	return t, nil
}

// newTarget is the target at an interface, which is shown c where c is for it.
func newTarget(a *Agent, at Interface, c *Credential) (*Target, error) {
	t := &Target{Agent: a, Interface: at, Binding: at.Speaks(), Version: at.SpeaksVersion()}
	if !c.For(at.URL) {
		return t, nil
	}
	return t, t.show(c)
}

// show makes c what is shown at the target.
func (t *Target) show(c *Credential) error {
	t.Credential, t.Presented = c, c.Present()
	if c.Certificate == nil {
		return nil
	}
	var err error
	if t.TLS, err = c.Certificate.TLS(); err != nil {
		return fmt.Errorf("the stored client certificate of agent %s cannot be used: %w", t.Agent.Name, err)
	}
	t.TLSID = c.Certificate.Fingerprint()
	return nil
}
