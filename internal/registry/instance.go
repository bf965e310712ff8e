package registry

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// InstanceStatus is whether an instance takes new work.
type InstanceStatus string

// The statuses of an instance.
const (
	InstanceReady    InstanceStatus = "ready"
	InstanceDiffers  InstanceStatus = "differs"  // its card is no longer the agent's: no new work
	InstanceDraining InstanceStatus = "draining" // to be removed once its tasks are final: no new work
)

// First is how the agent's own address is called among its instances. Records
// and tasks there name no instance.
const First = "first"

// MaxInstances is how many instances one agent may have beside its own address.
const MaxInstances = 32

// Instance is a further address at which the same agent answers. What the agent
// is (its owner, who may call it, its credential) stands with the agent; where
// and whether it answers, here.
type Instance struct {
	Agent   parley.AgentName
	ID      string // unique in the agent; [a-z][a-z0-9-]*
	URL     string // as given
	CardURL string // where its card was found
	Status  InstanceStatus

	Card         []byte // raw bytes as fetched
	CardETag     string
	AgentVersion string // the card's word, which may differ while an agent is rolled out
	Interfaces   []Interface
	Use          int // index in Interfaces that calls go to; -1 where none is proven

	// Credential is set where an operator confirmed that the agent's credential
	// may go to the origin of CardURL.
	Credential bool

	CheckedAt time.Time // last look, successful or not
	CheckErr  string    // what the last look ran into
	CreatedAt time.Time
	UpdatedAt time.Time
	Version   int64
}

// Standing is what a process that calls the agent sees of one of its addresses.
type Standing struct {
	Instance string // empty for the agent's own address
	Open     int    // exchanges under way
	Healthy  bool   // whether new work may go there now
}

// inUse is the interface calls go to; the zero value if there is none.
func (i *Instance) inUse() Interface {
	if i.Use >= 0 && i.Use < len(i.Interfaces) {
		return i.Interfaces[i.Use]
	}
	return Interface{}
}

// allowed is the agent's credential as it may go to the instance; nil for none.
// It goes to no other origin than that it was stored for and that which an
// operator confirmed.
func (i *Instance) allowed(c *Credential) *Credential {
	switch {
	case c == nil:
		return nil
	case c.For(i.CardURL):
		return c
	case !i.Credential:
		return nil
	}
	origin, err := OriginOf(i.CardURL)
	if err != nil {
		return nil
	}
	there := *c
	there.Origin = origin
	return &there
}

func (i *Instance) clone() *Instance {
	c := *i
	c.Interfaces = slices.Clone(i.Interfaces)
	return &c
}

// cardFacts are what two cards of one agent have in common. The cards were
// checked before; here they are only compared.
type cardFacts struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Skills  []struct {
		ID string `json:"id"`
	} `json:"skills"`
}

// maxDiffered is how many skills a difference names.
const maxDiffered = 8

// differences says in what another card is not that of the same agent. Versions
// differ while an agent is rolled out, so that they count only where asked.
func differences(agent, other []byte, versions bool) []parley.Field {
	var a, b cardFacts
	if json.Unmarshal(agent, &a) != nil || json.Unmarshal(other, &b) != nil {
		return []parley.Field{{Path: "card", Problem: "cannot be compared with the agent's"}}
	}
	var wrong []parley.Field
	add := func(path, problem, fix string) {
		wrong = append(wrong, parley.Field{Path: path, Problem: problem, Fix: fix})
	}
	if a.Name != b.Name {
		add("card.name", fmt.Sprintf("is %.80q, the agent's is %.80q", oneLine(b.Name), oneLine(a.Name)), "register another agent as an agent of its own")
	}
	if versions && a.Version != b.Version {
		add("card.version", fmt.Sprintf("is %.80q, the agent's is %.80q", oneLine(b.Version), oneLine(a.Version)), "bring both to one version, then refresh the agent")
	}
	has := func(f cardFacts) map[string]bool {
		all := map[string]bool{}
		for _, s := range f.Skills {
			all[oneLine(s.ID)] = true
		}
		return all
	}
	mine, its := has(a), has(b)
	missing, extra := without(mine, its), without(its, mine)
	if len(missing) > 0 {
		add("card.skills", "lacks "+named(missing), "let every instance offer the same skills")
	}
	if len(extra) > 0 {
		add("card.skills", "also has "+named(extra), "let every instance offer the same skills")
	}
	return wrong
}

// without lists what is in a and not in b.
func without(a, b map[string]bool) []string {
	var only []string
	for _, id := range slices.Sorted(maps.Keys(a)) {
		if !b[id] {
			only = append(only, id)
		}
	}
	return only
}

func named(ids []string) string {
	if more := len(ids) - maxDiffered; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(ids[:maxDiffered], ", "), more)
	}
	return strings.Join(ids, ", ")
}

// refreshInstance decides what an instance becomes after a look at it. A look
// that failed takes nothing out of service; it shows, and new work goes to
// others meanwhile (see package gateway).
func refreshInstance(old *Instance, a *Agent, in *Inspection, problem string, now time.Time) (*Instance, []parley.Event) {
	i := old.clone()
	i.CheckedAt, i.CheckErr = now, problem
	if problem == "" {
		i.take(a, in)
	}
	if i.Status == old.Status && i.CheckErr == old.CheckErr && i.Use == old.Use && i.AgentVersion == old.AgentVersion {
		return i, nil
	}
	i.UpdatedAt = now
	return i, []parley.Event{a.instanceEvent(EventInstanceChanged, i, now)}
}

// take takes over what a look found.
func (i *Instance) take(a *Agent, in *Inspection) {
	if fresh := newOrigins(i.Interfaces, in.Interfaces); len(fresh) > 0 {
		// A credential or a call must not follow a card to a new place unasked.
		i.CheckErr = "its card names addresses at a new origin: " + strings.Join(fresh, ", ") + "; remove the instance and add it again"
		return
	}
	wrong := differences(a.Card, in.Card, false)
	switch {
	case i.Status == InstanceDraining:
	case len(wrong) > 0:
		i.Status = InstanceDiffers
	default:
		i.Status = InstanceReady
	}
	used := i.inUse()
	i.Card, i.CardETag, i.AgentVersion = in.Card, in.ETag, in.AgentVersion
	i.Interfaces, i.Use = slices.Clone(in.Interfaces), in.Use
	if i.Use < 0 {
		i.Use = indexOf(i.Interfaces, used)
		i.CheckErr = unproven(a.Name, in.Interfaces)
	}
	if len(wrong) > 0 {
		i.CheckErr = "its card is not the agent's: " + wrong[0].Path + " " + wrong[0].Problem
	}
}
