package registry

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// NewInstance asks for an instance of an agent.
type NewInstance struct {
	ID  string // empty: the mesh makes one
	URL string // a card's address or a base address
	// Credential confirms that the agent's credential may go to URL's origin.
	Credential bool
}

// AddInstance registers a further address of an agent after a look at it: it
// must answer, and its card must be the agent's. Errors: parley.NotFound
// without the agent, parley.Conflict where the id or the address is taken,
// parley.Invalid with every difference, and those of Add.
func (r *Registrar) AddInstance(ctx context.Context, name parley.AgentName, n NewInstance) (*Instance, *Report, error) {
	a, err := r.store.Agent(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	others, err := r.store.Instances(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	cred, err := r.credentialOf(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	i, event, report, err := r.DraftInstance(ctx, a, others, cred, n)
	if err != nil {
		return nil, report, err
	}
	if err := r.store.SaveInstance(ctx, i, event); err != nil {
		return nil, report, err
	}
	r.changed(name)
	r.log.Info("instance added", "agent", name, "instance", i.ID)
	return i, report, nil
}

// DraftInstance decides a further address as AddInstance does, after the same
// look, for an agent that may be a draft as well. The instance and its event
// are for whoever asked to save; then Committed is told.
func (r *Registrar) DraftInstance(ctx context.Context, a *Agent, others []*Instance, cred *Credential, n NewInstance) (*Instance, parley.Event, *Report, error) {
	const op = "registry.add_instance"
	none := parley.Event{}
	if err := checkInstance(a, others, &n); err != nil {
		return nil, none, nil, err
	}
	now := r.now()
	i := &Instance{
		Agent: a.Name, ID: n.ID, URL: n.URL, CardURL: n.URL, Status: InstanceReady, Credential: n.Credential,
		CheckedAt: now, CreatedAt: now, UpdatedAt: now,
	}
	in, err := r.look(ctx, InspectRequest{Agent: a.Name, URL: n.URL, Credential: i.allowed(cred)})
	if err != nil {
		return nil, none, in.report(), err
	}
	i.CardURL, i.Card, i.CardETag, i.AgentVersion = in.CardURL, in.Card, in.ETag, in.AgentVersion
	i.Interfaces, i.Use = slices.Clone(in.Interfaces), in.Use
	wrong := differences(a.Card, in.Card, true)
	if in.Use < 0 {
		wrong = append(wrong, notProven(a, in, cred, n)...)
	} else if at := taken(a, others, i.inUse().URL); at != "" {
		wrong = append(wrong, parley.Field{Path: "card.supportedInterfaces", Problem: "names the address at which " + at + " is called already: " + i.inUse().URL, Fix: "let the card of each instance name its own address"})
	}
	if err := invalid(op, parley.Subject(a.Name), "this instance cannot be added", wrong); err != nil {
		return nil, none, in.report(), err
	}
	return i, a.instanceEvent(EventInstanceAdded, i, now), in.report(), nil
}

// DraftInstanceCredential decides whether the agent's credential may go to the
// origin of an instance that is there. The next look shows what it does with it.
func (r *Registrar) DraftInstanceCredential(a *Agent, old *Instance, allowed bool) (*Instance, parley.Event) {
	i := old.clone()
	i.Credential, i.UpdatedAt = allowed, r.now()
	return i, a.instanceEvent(EventInstanceChanged, i, i.UpdatedAt)
}

// DraftInstanceRemoval decides that an instance gets no new work and goes once
// nothing is open there, as RemoveInstance does.
func (r *Registrar) DraftInstanceRemoval(a *Agent, old *Instance) (*Instance, parley.Event) {
	i := old.clone()
	i.Status, i.UpdatedAt = InstanceDraining, r.now()
	return i, a.instanceEvent(EventInstanceDraining, i, i.UpdatedAt)
}

// checkInstance reports what is wrong with what was asked for, and gives the
// instance an id where it has none.
func checkInstance(a *Agent, others []*Instance, n *NewInstance) error {
	if len(others) >= MaxInstances {
		return parley.E("registry.add_instance", parley.Exhausted, parley.Subject(a.Name), fmt.Sprintf("the agent has %d instances, which is the limit: remove one first", MaxInstances), nil)
	}
	wrong := checkURL(n.URL)
	if n.ID == "" {
		n.ID = "i-" + strings.ToLower(rand.Text()[:6])
	}
	if err := parley.CheckName("instance", n.ID); err != nil {
		wrong = append(wrong, parley.Field{Path: "id", Problem: err.Error()})
	}
	if n.ID == First {
		wrong = append(wrong, parley.Field{Path: "id", Problem: First + " is the agent's own address", Fix: "choose another"})
	}
	if n.Credential {
		if _, err := OriginOf(n.URL); err != nil {
			wrong = append(wrong, parley.Field{Path: "credential", Problem: "it is not clear where the credential may go: " + err.Error(), Fix: "give the URL with its scheme"})
		}
	}
	if err := invalid("registry.add_instance", parley.Subject(a.Name), "this instance cannot be added", wrong); err != nil {
		return err
	}
	if slices.ContainsFunc(others, func(i *Instance) bool { return i.ID == n.ID }) {
		return parley.E("registry.add_instance", parley.Conflict, parley.Subject(a.Name), fmt.Sprintf("the agent has an instance %s already: choose another id, or remove it with 'parley agent instance rm %s %s'", n.ID, a.Name, n.ID), nil)
	}
	return nil
}

// notProven says why an instance that does not answer cannot be added.
func notProven(a *Agent, in *Inspection, c *Credential, n NewInstance) []parley.Field {
	f := parley.Field{Path: "url", Problem: unproven(a.Name, in.Interfaces)}
	if anyUnauthorized(in.Interfaces) && c != nil && !n.Credential {
		f.Problem = "the instance wants credentials, and the agent's is stored for " + c.Origin + " only"
		f.Fix = "confirm that it may go to the instance's origin: --credential"
	}
	return []parley.Field{f}
}

// taken says who is called at an address already; empty for nobody.
func taken(a *Agent, others []*Instance, address string) string {
	if a.inUse().URL == address {
		return "the agent itself"
	}
	for _, i := range others {
		if i.inUse().URL == address {
			return "the instance " + i.ID
		}
	}
	return ""
}

// drainAtLeast is how long an instance drains, even where nothing is open: calls
// that were about to begin there, in this process or another one, have begun by
// then.
const drainAtLeast = 5 * time.Second

// RemoveInstance takes an instance out of service. It gets no new work from
// then on, and is gone soon after nothing is open there any more, or at once
// with force: its open tasks are then reachable no more. open is how much is
// open there.
func (r *Registrar) RemoveInstance(ctx context.Context, name parley.AgentName, id string, force bool) (open int, err error) {
	a, i, err := r.instance(ctx, name, id)
	if err != nil {
		return 0, err
	}
	if i.Status != InstanceDraining {
		next, event := r.DraftInstanceRemoval(a, i)
		if err := r.store.SaveInstance(ctx, next, event); err != nil {
			return 0, err
		}
		r.changed(name)
		i = next
	}
	if open, err = r.store.OpenAt(ctx, name, id); err != nil || !force {
		return open, err
	}
	return open, r.endInstance(ctx, a, i)
}

// instance finds an agent and one of its instances.
func (r *Registrar) instance(ctx context.Context, name parley.AgentName, id string) (*Agent, *Instance, error) {
	const op = "registry.instance"
	a, err := r.store.Agent(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if id == First || id == "" {
		return nil, nil, parley.E(op, parley.Invalid, parley.Subject(name), "the agent's own address is no instance that could be removed: suspend or remove the agent", nil)
	}
	all, err := r.store.Instances(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	for _, i := range all {
		if i.ID == id {
			return a, i, nil
		}
	}
	return nil, nil, parley.E(op, parley.NotFound, parley.Subject(name), fmt.Sprintf("agent %s has no instance %s", name, id), nil)
}

// endInstance forgets an instance.
func (r *Registrar) endInstance(ctx context.Context, a *Agent, i *Instance) error {
	if err := r.store.DeleteInstance(ctx, i.Agent, i.ID, i.Version, a.instanceEvent(EventInstanceRemoved, i, r.now())); err != nil {
		return err
	}
	r.changed(i.Agent)
	r.instanceGone(i.Agent, i.ID)
	r.log.Info("instance removed", "agent", i.Agent, "instance", i.ID)
	return nil
}

// lookInstances looks at every instance of an agent again. What is wrong with
// one shows in its own state.
func (r *Registrar) lookInstances(ctx context.Context, name parley.AgentName) error {
	all, err := r.store.Instances(ctx, name)
	if err != nil || len(all) == 0 {
		return err
	}
	cred, err := r.credentialOf(ctx, name)
	if err != nil {
		return err
	}
	for _, i := range all {
		if err := r.lookInstance(ctx, i, cred); err != nil {
			return err
		}
	}
	return nil
}

func (r *Registrar) lookInstance(ctx context.Context, i *Instance, cred *Credential) error {
	in, problem := r.look(ctx, InspectRequest{
		Agent: i.Agent, URL: i.CardURL, Exact: true, ETag: i.CardETag, Card: i.Card, Credential: i.allowed(cred),
	})
	if problem != nil && ctx.Err() != nil {
		return problem // whoever asked has left: that says nothing about the instance
	}
	text := ""
	if problem != nil {
		text = clip(parley.PublicMessage(problem))
	}
	a, err := r.store.Agent(ctx, i.Agent)
	if err != nil {
		return err
	}
	next, events := refreshInstance(i, a, in, text, r.now())
	switch err := r.store.SaveInstance(ctx, next, events...); parley.KindOf(err) {
	case parley.Conflict, parley.NotFound: // changed or removed meanwhile, which counts more than a look
		return nil
	default:
		r.changed(i.Agent)
		return err
	}
}

// endDrained removes the instances that drain and where nothing is open any
// more.
func (r *Registrar) endDrained(ctx context.Context) error {
	all, err := r.store.Instances(ctx, "")
	if err != nil {
		return err
	}
	for _, i := range all {
		if i.Status != InstanceDraining || r.now().Sub(i.UpdatedAt) < drainAtLeast {
			continue
		}
		open, err := r.store.OpenAt(ctx, i.Agent, i.ID)
		if err != nil {
			return err
		}
		if open > 0 {
			continue
		}
		a, err := r.store.Agent(ctx, i.Agent)
		if err == nil {
			err = r.endInstance(ctx, a, i)
		}
		if kind := parley.KindOf(err); err != nil && kind != parley.Conflict && kind != parley.NotFound {
			return err // else somebody else was faster
		}
	}
	return nil
}

// instanceEvent is an event of one of the agent's instances.
func (a *Agent) instanceEvent(kind string, i *Instance, now time.Time) parley.Event {
	return a.event(kind, now, func(d *EventData) {
		d.Instance, d.InstanceStatus, d.URL, d.CheckErr = i.ID, i.Status, i.URL, i.CheckErr
		d.Address, d.Binding = i.inUse().URL, i.inUse().Speaks()
	})
}
