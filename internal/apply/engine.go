package apply

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/manifest"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// maxTries is how often a plan is made anew because something changed while it
// was made.
const maxTries = 5

// Store reads what the mesh holds; see identity.Store and registry.Store.
type Store interface {
	Owner(ctx context.Context, name parley.OwnerName) (*identity.Owner, error)
	Owners(ctx context.Context, after parley.OwnerName, limit int) ([]*identity.Owner, error)
	Principal(ctx context.Context, name parley.PrincipalName) (*identity.Principal, error)
	Principals(ctx context.Context, owner parley.OwnerName, after parley.PrincipalName, limit int) ([]*identity.Principal, error)
	Agent(ctx context.Context, name parley.AgentName) (*registry.Agent, error)
	Agents(ctx context.Context, owner parley.OwnerName, after parley.AgentName, limit int) ([]*registry.Agent, error)
	Credential(ctx context.Context, agent parley.AgentName) (*registry.Credential, error)
	Instances(ctx context.Context, agent parley.AgentName) ([]*registry.Instance, error)
	PrincipalByName(ctx context.Context, kind identity.NameKind, name string) (*identity.Principal, error)
	Names(ctx context.Context, principal parley.PrincipalName) ([]*identity.CertName, error)
	Linked(ctx context.Context, issuer, subject string) (*identity.Link, *identity.Principal, error)
	Links(ctx context.Context, principal parley.PrincipalName, limit int) ([]*identity.Link, error)
	Marks(ctx context.Context) ([]manifest.Mark, error)
	LimitOverrides(ctx context.Context) (values map[string]string, madeAt time.Time, version int64, err error)
}

// Batch gathers changes and writes all of them in one transaction, or none. A
// change that was decided on an older state makes Commit a parley.Conflict.
type Batch interface {
	SaveOwner(ctx context.Context, o *identity.Owner, events ...parley.Event)
	DeleteOwner(ctx context.Context, name parley.OwnerName, version int64, events ...parley.Event)
	SavePrincipal(ctx context.Context, p *identity.Principal, events ...parley.Event)
	DeletePrincipal(ctx context.Context, name parley.PrincipalName, version int64, events ...parley.Event)
	SaveAgent(ctx context.Context, a *registry.Agent, events ...parley.Event)
	DeleteAgent(ctx context.Context, name parley.AgentName, version int64, events ...parley.Event)
	ReplaceCredential(ctx context.Context, before time.Time, c *registry.Credential, events ...parley.Event)
	DeleteCredential(ctx context.Context, agent parley.AgentName, before time.Time, events ...parley.Event)
	SaveInstance(ctx context.Context, i *registry.Instance, events ...parley.Event)
	LinkName(ctx context.Context, n *identity.CertName, events ...parley.Event)
	UnlinkName(ctx context.Context, n *identity.CertName, events ...parley.Event)
	AddLink(ctx context.Context, l *identity.Link, events ...parley.Event)
	RemoveLink(ctx context.Context, l *identity.Link, events ...parley.Event)
	SaveLimits(ctx context.Context, values map[string]string, madeAt time.Time, version int64, events ...parley.Event)
	DeleteLimits(ctx context.Context, version int64, events ...parley.Event)
	Mark(m manifest.Mark)
	Unmark(kind manifest.Kind, name string)
	Commit(ctx context.Context) error
}

// Identity decides about owners and principals; see identity.Directory.
type Identity interface {
	DraftOwner(ctx context.Context, old *identity.Owner, name parley.OwnerName, description string) (*identity.Owner, parley.Event, error)
	DraftPrincipal(ctx context.Context, n identity.NewPrincipal) (*identity.Principal, parley.Event, error)
	DraftPrincipalChange(ctx context.Context, old *identity.Principal, c identity.PrincipalChange) (*identity.Principal, parley.Event, error)
	DraftCertName(ctx context.Context, p *identity.Principal, kind identity.NameKind, name string) (*identity.CertName, parley.Event, error)
	DraftLink(ctx context.Context, p *identity.Principal, issuer, subject string) (*identity.Link, parley.Event, error)
	RemovedCertNameEvent(ctx context.Context, p *identity.Principal, n *identity.CertName) parley.Event
	RemovedLinkEvent(ctx context.Context, p *identity.Principal, l *identity.Link) parley.Event
	RemovedOwnerEvent(ctx context.Context, o *identity.Owner) parley.Event
	RemovedPrincipalEvent(ctx context.Context, p *identity.Principal) parley.Event
	Invalidate()
}

// Registry decides about agents, after a look at them; see registry.Registrar.
type Registry interface {
	DraftAdd(ctx context.Context, req registry.AddRequest) (*registry.Draft, error)
	DraftChange(ctx context.Context, old *registry.Agent, wish registry.Wish) (*registry.Draft, error)
	DraftInstance(ctx context.Context, a *registry.Agent, others []*registry.Instance, cred *registry.Credential, n registry.NewInstance) (*registry.Instance, parley.Event, *registry.Report, error)
	DraftInstanceCredential(a *registry.Agent, old *registry.Instance, allowed bool) (*registry.Instance, parley.Event)
	DraftInstanceRemoval(a *registry.Agent, old *registry.Instance) (*registry.Instance, parley.Event)
	RemovedEvent(a *registry.Agent) parley.Event
	AuthRemovedEvent(a *registry.Agent) parley.Event
	Committed(changed, gone []parley.AgentName)
}

// Limits are the limits of the running mesh.
type Limits interface {
	// CheckLimits says what is wrong with values by dotted key, as fields whose
	// paths are the keys.
	CheckLimits(values map[string]string) []parley.Field
	// ConfiguredLimit is what the configuration says.
	ConfiguredLimit(key string) string
	// ReloadLimits takes what is stored.
	ReloadLimits(ctx context.Context) error
}

// Options are the parts of an Engine. All are required but Log and Now.
type Options struct {
	Store    Store
	Begin    func() Batch
	Identity Identity
	Registry Registry
	Limits   Limits
	// Environment is the mesh's own; the events of limits belong to it.
	Environment parley.Environment
	Log         *slog.Logger // nil: nothing is logged
	Now         func() time.Time
}

// Engine plans and applies.
type Engine struct {
	Options
	turn chan struct{} // holds a token while a plan is carried out
}

// New makes an engine.
func New(o Options) *Engine {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Engine{Options: o, turn: make(chan struct{}, 1)}
}

// Request is what is to be applied.
type Request struct {
	// Set names the documents as one whole; empty means manifest.DefaultSet.
	Set       string
	Documents []Input
	// Prune removes what the set created and declares no more.
	Prune bool
	// DryRun makes the plan and carries nothing out.
	DryRun bool
}

// Input is one document, with what it refers to where it is a Credential.
type Input struct {
	*manifest.Document
	Secret      string                      `json:"-"`
	Certificate *registry.ClientCertificate `json:"-"`
}

// Apply makes the plan and carries it out. An error means that nothing was
// changed, unless it is of kind Timeout or Canceled: then the plan may have
// been carried out. What is wrong with documents is one parley.Invalid error
// whose fields have paths as /documents/3/spec/url.
func (e *Engine) Apply(ctx context.Context, req Request) (*Plan, error) {
	const op parley.Op = "apply.apply"
	if req.Set == "" {
		req.Set = manifest.DefaultSet
	}
	if err := parley.CheckName("set", req.Set); err != nil {
		return nil, &parley.Error{Op: op, Kind: parley.Invalid, Message: "the set's name is not valid", Fields: []parley.Field{{Path: "/set", Problem: err.Error()}}}
	}
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return nil, parley.E(op, parley.Timeout, "", "another plan is being carried out: try again", ctx.Err())
	}
	var conflict error
	for range maxTries {
		p, err := e.plan(ctx, req)
		if err != nil || req.DryRun || !p.writes {
			return p.result(err), err
		}
		err = p.batch.Commit(ctx)
		p.committed(ctx)
		if err == nil {
			p.plan.Applied = true
			e.Log.InfoContext(ctx, "documents applied", "set", req.Set, "changes", len(p.plan.Changes))
			return &p.plan, nil
		}
		if parley.KindOf(err) != parley.Conflict {
			return nil, err
		}
		conflict = err
	}
	return nil, fmt.Errorf("the mesh changes faster than the plan is made: %w", conflict)
}

// committed makes the running mesh see what was, or may have been, written.
func (p *planner) committed(ctx context.Context) {
	p.Identity.Invalidate()
	p.Registry.Committed(p.changedAgents, p.goneAgents)
	if p.limits {
		if err := p.Limits.ReloadLimits(context.WithoutCancel(ctx)); err != nil {
			p.Log.WarnContext(ctx, "changed limits are not in force yet", "err", err)
		}
	}
}
