package apply

import (
	"cmp"
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/parley-mesh/parley/internal/manifest"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// looksAtOnce is how many agents are drafted at once. The registrar bounds how
// many it looks at together with all others.
const looksAtOnce = 8

// agentDraft is one agent as the documents want it.
type agentDraft struct {
	name        parley.AgentName
	agent, auth int // indexes of its documents; -1 for none

	old     *registry.Agent
	oldAuth *registry.Credential
	made    *registry.Draft // nil where nothing changes
	err     error

	oldInstances []*registry.Instance
	instances    []*instanceDraft
}

// document is the one that an error about the agent is told at.
func (a *agentDraft) document() int {
	if a.agent >= 0 {
		return a.agent
	}
	return a.auth
}

// planAgents takes agents together with their credentials: a new agent is
// looked at with the credential that it is declared with.
func (p *planner) planAgents(ctx context.Context) error {
	drafts, err := p.agentDrafts(ctx)
	if err != nil {
		return err
	}
	if len(p.wrong) > 0 {
		return nil // no look at agents for a plan that is refused anyhow
	}
	group, look := errgroup.WithContext(ctx)
	group.SetLimit(looksAtOnce)
	for _, a := range drafts {
		group.Go(func() error {
			p.draft(look, a)
			if a.err == nil {
				p.draftInstances(look, a)
			}
			return look.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return parley.E("apply.look", parley.Timeout, "", "there was no time to look at all agents", err)
	}
	for _, a := range drafts {
		if ok, err := p.judgeAt(a.err, a.place); err != nil {
			return err
		} else if ok {
			p.takeAgent(ctx, a)
		}
		if err := p.takeInstances(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// agentDrafts pairs the documents and reads what is there.
func (p *planner) agentDrafts(ctx context.Context) (drafts []*agentDraft, _ error) {
	by := map[string]*agentDraft{}
	of := func(name string) *agentDraft {
		if by[name] == nil {
			by[name] = &agentDraft{name: parley.AgentName(name), agent: -1, auth: -1}
			drafts = append(drafts, by[name])
		}
		return by[name]
	}
	_ = p.each(manifest.KindAgent, func(i int, d Input) error { of(d.Name).agent = i; return nil })
	_ = p.each(manifest.KindCredential, func(i int, d Input) error { of(d.Name).auth = i; return nil })
	for _, a := range drafts {
		var err error
		if a.old, err = stored(p.Store.Agent(ctx, a.name)); err != nil {
			return nil, err
		}
		if a.oldAuth, err = stored(p.Store.Credential(ctx, a.name)); err != nil {
			return nil, err
		}
		if err := p.checkAgent(ctx, a); err != nil {
			return nil, err
		}
	}
	return drafts, nil
}

// checkAgent refuses what no look at the agent could make right.
func (p *planner) checkAgent(ctx context.Context, a *agentDraft) error {
	if a.auth >= 0 {
		if a.agent < 0 && a.old == nil {
			p.refuse(a.auth, "/metadata/name", fmt.Sprintf("no agent is named %q", a.name), "declare the agent as well: a credential has its agent's name")
		}
		p.checkCredential(a)
	}
	if a.agent < 0 {
		return nil
	}
	d := p.req.Documents[a.agent]
	owner, env := cmp.Or(d.Agent.Owner, parley.DefaultOwner), cmp.Or(d.Agent.Environment, parley.Dev)
	if _, err := p.home(ctx, a.agent, "/spec/owner", owner); err != nil {
		return err
	}
	for i, allowed := range d.Agent.Allow {
		if _, err := p.home(ctx, a.agent, fmt.Sprintf("/spec/allow/%d", i), allowed); err != nil {
			return err
		}
	}
	if a.old != nil && p.free(a.agent, d, a.old.CreatedAt.UnixMicro()) {
		p.sameHome(a.agent, a.old.Owner, owner, a.old.Environment, env)
	}
	return p.checkInstances(ctx, a)
}

// draft decides what becomes of an agent, with a look at it where it is needed.
func (p *planner) draft(ctx context.Context, a *agentDraft) {
	if a.old == nil {
		spec := p.req.Documents[a.agent].Agent
		a.made, a.err = p.Registry.DraftAdd(ctx, registry.AddRequest{
			Name: a.name, URL: spec.URL, Owner: spec.Owner, Environment: spec.Environment, Allow: spec.Allow, Credential: p.credential(a),
		})
		return
	}
	wish := registry.Wish{URL: a.old.URL, Allow: a.old.Allow}
	if a.agent >= 0 {
		spec := p.req.Documents[a.agent].Agent
		wish.URL, wish.Allow = spec.URL, spec.Allow
	}
	if !p.sameCredential(a) || a.auth >= 0 && wish.URL != a.old.URL {
		wish.Credential = p.credential(a)
	}
	if wish.URL == a.old.URL && wish.Credential == nil && sameNames(wish.Allow, a.old.Allow) {
		return
	}
	a.made, a.err = p.Registry.DraftChange(ctx, a.old, wish)
}

// takeAgent puts what was decided of an agent into the plan.
func (p *planner) takeAgent(ctx context.Context, a *agentDraft) {
	if a.made == nil {
		for _, i := range []int{a.agent, a.auth} {
			if i >= 0 {
				p.plan.Unchanged++
			}
		}
		return
	}
	next := a.made.Agent
	if a.agent >= 0 {
		p.agentChange(a, next)
	}
	p.writes = true
	p.changedAgents = append(p.changedAgents, a.name)
	p.batch.SaveAgent(ctx, next, a.made.Events...)
	if a.old == nil {
		p.batch.Mark(manifest.Mark{Kind: manifest.KindAgent, Name: string(a.name), Set: p.req.Set, MadeAt: next.CreatedAt})
	}
	if a.auth >= 0 {
		p.takeCredential(ctx, a, notes(a.made))
	}
}

// agentChange tells what becomes of the agent itself.
func (p *planner) agentChange(a *agentDraft, next *registry.Agent) {
	c := Change{Action: Create, Kind: manifest.KindAgent, Name: string(a.name)}
	f := (*fields)(&c.Fields)
	if a.old == nil {
		f.add("url", "", next.URL)
		f.add("owner", "", string(next.Owner))
		f.add("environment", "", string(next.Environment))
		f.add("allow", "", names(next.Allow))
	} else {
		c.Action = Update
		f.add("url", a.old.URL, next.URL)
		f.add("allow", names(a.old.Allow), names(next.Allow))
	}
	if len(c.Fields) == 0 { // only its credential changes
		p.plan.Unchanged++
		return
	}
	c.Notes = notes(a.made)
	p.change(c)
}

// notes are what a look found that whoever applies should know.
func notes(d *registry.Draft) (all []string) {
	if d.Agent.Reason != "" {
		all = append(all, fmt.Sprintf("it is %s: %s", d.Agent.Status, d.Agent.Reason))
	}
	if d.Agent.Pending != nil {
		all = append(all, "a newer card waits for approval: "+d.Agent.Pending.Why)
	}
	return append(all, d.Agent.Warnings...)
}
