package apply

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/manifest"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

const (
	whyNotPruned = "declared no more; --prune removes it"
	whyYourself  = "declared no more, and you are applying as it: let another admin remove it"
)

// planRemovals removes, or names, what the set created and declares no more, in
// the opposite order of making.
func (p *planner) planRemovals(ctx context.Context) error {
	for _, kind := range slices.Backward(manifest.Kinds) {
		for _, key := range slices.Sorted(maps.Keys(p.marks)) {
			m := p.marks[key]
			if _, declared := p.declared[key]; declared || m.Kind != kind || m.Set != p.req.Set {
				continue
			}
			if err := p.orphan(ctx, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// orphan decides about one thing that is declared no more.
func (p *planner) orphan(ctx context.Context, m manifest.Mark) error {
	var remove func()
	var err error
	switch m.Kind {
	case manifest.KindLimits:
		remove, err = p.limitsRemoval(ctx, m)
	case manifest.KindCredential:
		remove, err = p.credentialRemoval(ctx, m)
	case manifest.KindAgent:
		remove, err = p.agentRemoval(ctx, m)
	case manifest.KindPrincipal:
		remove, err = p.principalRemoval(ctx, m)
	case manifest.KindOwner:
		remove, err = p.ownerRemoval(ctx, m)
	}
	switch {
	case err != nil:
		return err
	case remove == nil: // gone already, or another of the same name
		if p.req.Prune {
			p.batch.Unmark(m.Kind, m.Name)
			p.writes = true
		}
	case !p.req.Prune:
		p.plan.Orphans = append(p.plan.Orphans, Orphan{m.Kind, m.Name, whyNotPruned})
	case m.Kind == manifest.KindPrincipal && parley.PrincipalName(m.Name) == caller(ctx):
		p.plan.Orphans = append(p.plan.Orphans, Orphan{m.Kind, m.Name, whyYourself})
	default:
		p.change(Change{Action: Remove, Kind: m.Kind, Name: m.Name})
		remove()
		p.batch.Unmark(m.Kind, m.Name)
	}
	return nil
}

func (p *planner) limitsRemoval(ctx context.Context, m manifest.Mark) (func(), error) {
	_, madeAt, version, err := p.Store.LimitOverrides(ctx)
	if err != nil || version == 0 || madeAt.UnixMicro() != m.MadeAt.UnixMicro() {
		return nil, err
	}
	return func() {
		p.limits = true
		p.batch.DeleteLimits(ctx, version, p.limitsChanged(ctx, map[string]string{}))
	}, nil
}

func (p *planner) credentialRemoval(ctx context.Context, m manifest.Mark) (func(), error) {
	name := parley.AgentName(m.Name)
	c, err := stored(p.Store.Credential(ctx, name))
	if err != nil || c == nil || c.CreatedAt.UnixMicro() != m.MadeAt.UnixMicro() {
		return nil, err
	}
	a, err := p.Store.Agent(ctx, name)
	if err != nil {
		return nil, err
	}
	return func() {
		p.changedAgents = append(p.changedAgents, name)
		p.batch.DeleteCredential(ctx, name, c.CreatedAt, p.Registry.AuthRemovedEvent(a))
	}, nil
}

func (p *planner) agentRemoval(ctx context.Context, m manifest.Mark) (func(), error) {
	a, err := stored(p.Store.Agent(ctx, parley.AgentName(m.Name)))
	if err != nil || a == nil || a.CreatedAt.UnixMicro() != m.MadeAt.UnixMicro() {
		return nil, err
	}
	return func() {
		p.goneAgents = append(p.goneAgents, a.Name)
		p.batch.DeleteAgent(ctx, a.Name, a.Version, p.Registry.RemovedEvent(a))
	}, nil
}

func (p *planner) principalRemoval(ctx context.Context, m manifest.Mark) (func(), error) {
	one, err := stored(p.Store.Principal(ctx, parley.PrincipalName(m.Name)))
	if err != nil || one == nil || one.CreatedAt.UnixMicro() != m.MadeAt.UnixMicro() {
		return nil, err
	}
	return func() {
		p.batch.DeletePrincipal(ctx, one.Name, one.Version, p.Identity.RemovedPrincipalEvent(ctx, one))
	}, nil
}

func (p *planner) ownerRemoval(ctx context.Context, m manifest.Mark) (func(), error) {
	o, err := stored(p.Store.Owner(ctx, parley.OwnerName(m.Name)))
	if err != nil || o == nil || o.CreatedAt.UnixMicro() != m.MadeAt.UnixMicro() {
		return nil, err
	}
	if p.req.Prune {
		left, err := p.answersFor(ctx, o.Name)
		if err != nil {
			return nil, err
		}
		if len(left) > 0 {
			p.wrong = append(p.wrong, parley.Field{
				Path: "/prune", Problem: fmt.Sprintf("owner %s is declared no more and still answers for %s", o.Name, strings.Join(left, ", ")),
				Fix: "remove those first, or declare the owner again",
			})
			return func() {}, nil
		}
	}
	return func() { p.batch.DeleteOwner(ctx, o.Name, o.Version, p.Identity.RemovedOwnerEvent(ctx, o)) }, nil
}

// answersFor lists what keeps an owner from being removed: what it has now and
// this plan does not remove, and what this plan makes.
func (p *planner) answersFor(ctx context.Context, owner parley.OwnerName) (left []string, _ error) {
	const enough = 8
	removed := map[string]bool{}
	for _, c := range p.plan.Changes {
		removed[id(c.Kind, c.Name)] = c.Action == Remove
	}
	agents, err := all(ctx, func(after parley.AgentName, limit int) ([]*registry.Agent, error) {
		return p.Store.Agents(ctx, owner, after, limit)
	}, func(a *registry.Agent) parley.AgentName { return a.Name })
	if err != nil {
		return nil, err
	}
	for _, a := range agents {
		if !removed[id(manifest.KindAgent, string(a.Name))] {
			left = append(left, "agent "+string(a.Name))
		}
	}
	people, err := all(ctx, func(after parley.PrincipalName, limit int) ([]*identity.Principal, error) {
		return p.Store.Principals(ctx, owner, after, limit)
	}, func(one *identity.Principal) parley.PrincipalName { return one.Name })
	if err != nil {
		return nil, err
	}
	for _, one := range people {
		withAgent := one.Agent != "" && removed[id(manifest.KindAgent, string(one.Agent))]
		if !withAgent && !removed[id(manifest.KindPrincipal, string(one.Name))] {
			left = append(left, "principal "+string(one.Name))
		}
	}
	for _, d := range p.req.Documents {
		if d.Principal != nil && d.Principal.Owner == owner || d.Agent != nil && d.Agent.Owner == owner {
			left = append(left, fmt.Sprintf("%s %s of these documents", strings.ToLower(string(d.Kind)), d.Name))
		}
	}
	left = slices.Compact(left)
	return left[:min(len(left), enough)], nil
}

// all reads a list to its end.
func all[T any, N ~string](ctx context.Context, page func(after N, limit int) ([]*T, error), name func(*T) N) (items []*T, _ error) {
	const pageSize = 200
	var after N
	for {
		more, err := page(after, pageSize)
		if err != nil || ctx.Err() != nil {
			return nil, err
		}
		items = append(items, more...)
		if len(more) < pageSize {
			return items, nil
		}
		after = name(more[len(more)-1])
	}
}
