package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"

	"github.com/parley-mesh/parley/internal/parley"
)

// Target is an agent as calls use it. It is shared between calls and never
// changes: whoever holds one must not write to anything in it.
type Target struct {
	Agent *Agent
	// Interface is the one calls go to, where Ready is nil.
	Interface Interface
	// Binding is what is spoken there, whatever the card's label says.
	Binding string
	// Credential is what to show at the interface; nil for none. It is already
	// known to be for the interface's origin.
	Credential *Credential
	Presented  Presented // Credential as it stands in a request; none for OAuth2, whose tokens come and go
	// TLS shows the credential's client certificate to the agent; nil where it
	// has none. It is for the interface's origin, over every protocol, and TLSID
	// tells two of them apart.
	TLS   *tls.Config
	TLSID string
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
	if a.Status == Active && t.Interface.URL != "" {
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
	t := &Target{Agent: a, Interface: a.inUse()}
	t.Binding = t.Interface.Speaks()
	c, err := d.store.Credential(ctx, name)
	switch {
	case err == nil && c.For(t.Interface.URL):
		if err := t.show(c); err != nil {
			return nil, err
		}
	case err != nil && parley.KindOf(err) != parley.NotFound:
		return nil, err
	}
	return t, nil
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
