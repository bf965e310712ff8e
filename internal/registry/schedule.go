package registry

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// How the schedule behaves.
const (
	jitter     = 0.1 // a look comes up to this part of its wait earlier or later
	backOffMax = 4   // a failing agent waits at most this many refresh intervals
	firstRetry = 10  // a failing agent's first wait is this part of an interval
	agentsPage = 500
	minTick    = time.Second
	maxTick    = 30 * time.Second
)

// plan is when one agent is looked at again.
type plan struct {
	at    time.Time
	fails int // in a row
}

// after is the plan that follows a look which went well or not. spread is in
// [-1, 1).
func (p plan) after(failed bool, now time.Time, every time.Duration, spread float64) plan {
	wait := every
	if !failed {
		p.fails = 0
	} else {
		wait = every / firstRetry << min(p.fails, 30)
		if limit := backOffMax * every; wait <= 0 || wait > limit {
			wait = limit
		}
		p.fails++
	}
	p.at = now.Add(wait + time.Duration(jitter*spread*float64(wait)))
	return p
}

// Run looks at every agent again, each in its own time, until ctx ends; it
// then returns nil. Agents that fail are looked at soon again and then ever
// more rarely. A store that fails is logged and asked again.
func (r *Registrar) Run(ctx context.Context) error {
	plans := map[parley.AgentName]plan{}
	tick := time.NewTicker(min(max(r.every/20, minTick), maxTick))
	defer tick.Stop()
	for {
		if !r.turn() {
			clear(plans) // another process looks, and what it sees is in the store
		} else if err := r.refreshDue(ctx, plans); err != nil && ctx.Err() == nil {
			r.log.Warn("agents not refreshed", "err", err)
		}
		if err := r.endDrained(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("draining instances not looked after", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// refreshDue looks at the agents whose time has come and plans their next.
func (r *Registrar) refreshDue(ctx context.Context, plans map[parley.AgentName]plan) error {
	due, err := r.due(ctx, plans)
	if err != nil {
		return err
	}
	failed := make([]bool, len(due))
	var looks sync.WaitGroup
	// One turn is left to whoever asks for a look while the schedule is busy.
	slots := make(chan struct{}, max(1, cap(r.looking)-1))
	for i, name := range due {
		slots <- struct{}{}
		looks.Go(func() {
			defer func() { <-slots }()
			a, _, err := r.lookAgain(ctx, name, scheduled)
			if err != nil && ctx.Err() == nil && parley.KindOf(err) != parley.NotFound {
				r.log.Warn("agent not refreshed", "agent", name, "err", err)
			}
			failed[i] = err != nil || a.CheckErr != ""
			if err := r.lookInstances(ctx, name); err != nil && ctx.Err() == nil && parley.KindOf(err) != parley.NotFound {
				r.log.Warn("instances not refreshed", "agent", name, "err", err)
			}
		})
	}
	looks.Wait()
	now := r.now()
	for i, name := range due {
		plans[name] = plans[name].after(failed[i], now, r.every, 2*rand.Float64()-1)
	}
	return nil
}

// due lists the agents whose time has come. Plans of agents that are gone are
// dropped; an agent seen for the first time is due an interval after it was
// last looked at.
func (r *Registrar) due(ctx context.Context, plans map[parley.AgentName]plan) ([]parley.AgentName, error) {
	var names []parley.AgentName
	seen := map[parley.AgentName]bool{}
	now := r.now()
	for after := parley.AgentName(""); ; {
		page, err := r.store.Agents(ctx, "", after, agentsPage)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			break
		}
		for _, a := range page {
			after = a.Name
			seen[a.Name] = true
			p, known := plans[a.Name]
			if !known {
				p = plan{}.after(a.CheckErr != "", a.CheckedAt, r.every, 2*rand.Float64()-1)
				plans[a.Name] = p
			}
			if !p.at.After(now) {
				names = append(names, a.Name)
			}
		}
	}
	for name := range plans {
		if !seen[name] {
			delete(plans, name)
		}
	}
	return names, nil
}
