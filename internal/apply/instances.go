package apply

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/parley-mesh/parley/internal/manifest"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// instanceDraft is one further address of an agent as its document wants it.
type instanceDraft struct {
	spec manifest.Instance
	at   string // its pointer in the document
	old  *registry.Instance

	made  *registry.Instance // nil where nothing changes
	event parley.Event
	err   error
}

// instanceMark is the name under which an instance is marked.
func instanceMark(agent parley.AgentName, instance string) string {
	return string(agent) + "/" + instance
}

// checkInstances pairs what is declared with what is there, and refuses what no
// look could make right.
func (p *planner) checkInstances(ctx context.Context, a *agentDraft) (err error) {
	if a.old != nil {
		if a.oldInstances, err = p.Store.Instances(ctx, a.name); err != nil {
			return err
		}
	}
	for j, spec := range p.req.Documents[a.agent].Agent.Instances {
		one := &instanceDraft{spec: spec, at: fmt.Sprintf("/spec/instances/%d", j)}
		mark := id(manifest.PartInstance, instanceMark(a.name, spec.ID))
		if p.parts[mark] {
			p.refuse(a.agent, one.at+"/id", fmt.Sprintf("instance %s is declared twice", spec.ID), "keep one")
			continue
		}
		p.parts[mark] = true
		if k := slices.IndexFunc(a.oldInstances, func(i *registry.Instance) bool { return i.ID == spec.ID }); k >= 0 {
			one.old = a.oldInstances[k]
			if !p.sameInstance(a, one, mark) {
				continue
			}
		}
		a.instances = append(a.instances, one)
	}
	return nil
}

// sameInstance refuses another address under an id: tasks stay at the instance
// where they began, and would be looked for at the new one.
func (p *planner) sameInstance(a *agentDraft, one *instanceDraft, mark string) bool {
	switch {
	case one.old.URL != one.spec.URL:
		p.refuse(a.agent, one.at+"/url", fmt.Sprintf("instance %s is at %s and cannot move", one.spec.ID, one.old.URL), "declare the new address under another id")
	case one.old.Status == registry.InstanceDraining:
		p.refuse(a.agent, one.at+"/id", fmt.Sprintf("instance %s is being removed and still drains", one.spec.ID), "wait until it is gone, or declare it under another id")
	default:
		return p.freePart(a.agent, one.at+"/id", mark, "instance "+one.spec.ID, one.old.CreatedAt.UnixMicro())
	}
	return false
}

// draftInstances decides what becomes of the instances, with a look at each new
// one. They follow one another, since none may answer where another does.
func (p *planner) draftInstances(ctx context.Context, a *agentDraft) {
	agent, cred := a.old, a.oldAuth
	if a.made != nil {
		agent = a.made.Agent
		if a.made.Credential != nil {
			cred = a.made.Credential
		}
	}
	others := slices.Clone(a.oldInstances)
	for _, one := range a.instances {
		switch {
		case one.old == nil:
			one.made, one.event, _, one.err = p.Registry.DraftInstance(ctx, agent, others, cred,
				registry.NewInstance{ID: one.spec.ID, URL: one.spec.URL, Credential: one.spec.Credential})
			if one.err == nil {
				others = append(others, one.made)
			}
		case one.old.Credential != one.spec.Credential:
			one.made, one.event = p.Registry.DraftInstanceCredential(agent, one.old, one.spec.Credential)
		}
	}
}

// takeInstances puts what was decided of the instances into the plan.
func (p *planner) takeInstances(ctx context.Context, a *agentDraft) error {
	for _, one := range a.instances {
		ok, err := p.judgeAt(one.err, func(path string) (int, string) { return a.agent, one.pointer(path) })
		if err != nil {
			return err
		}
		if !ok || one.made == nil {
			continue // what does not change counts with its agent
		}
		c := Change{Action: Create, Kind: manifest.PartInstance, Name: instanceMark(a.name, one.spec.ID)}
		f := (*fields)(&c.Fields)
		if one.old == nil {
			f.add("url", "", one.made.URL)
			if one.made.Credential {
				f.add("credential", "", "true")
			}
			p.batch.Mark(manifest.Mark{Kind: c.Kind, Name: c.Name, Set: p.req.Set, MadeAt: one.made.CreatedAt})
		} else {
			c.Action = Update
			f.add("credential", strconv.FormatBool(one.old.Credential), strconv.FormatBool(one.made.Credential))
		}
		p.change(c)
		p.changedAgents = append(p.changedAgents, a.name)
		p.batch.SaveInstance(ctx, one.made, one.event)
	}
	return nil
}

// pointer is where the member of an instance stands.
func (d *instanceDraft) pointer(path string) string {
	switch path {
	case "id", "url", "credential":
		return d.at + "/" + path
	}
	return d.at
}

// instanceRemoval drains the instance of a mark; nil where it is gone, or goes.
func (p *planner) instanceRemoval(ctx context.Context, m manifest.Mark, agent parley.AgentName) (*partRemoval, error) {
	a, err := stored(p.Store.Agent(ctx, agent))
	if err != nil || a == nil {
		return nil, err
	}
	all, err := p.Store.Instances(ctx, agent)
	if err != nil {
		return nil, err
	}
	for _, i := range all {
		if instanceMark(agent, i.ID) != m.Name || i.CreatedAt.UnixMicro() != m.MadeAt.UnixMicro() || i.Status == registry.InstanceDraining {
			continue
		}
		return &partRemoval{name: m.Name, fields: fields{{"url", i.URL, ""}}, do: func() {
			next, event := p.Registry.DraftInstanceRemoval(a, i)
			p.changedAgents = append(p.changedAgents, agent)
			p.batch.SaveInstance(ctx, next, event)
		}}, nil
	}
	return nil, nil
}
