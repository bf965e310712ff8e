package gateway

import (
	"context"
	"fmt"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// maxLost is after how many looks in a row an agent that says it does not know
// a task is believed.
const maxLost = 3

// look asks an agent once about a task that calls wait for, and ends those that
// need not wait any longer. It reports whether the watch is over.
func (g *Gateway) look(ctx context.Context, key call.TaskKey) (done bool) {
	now := g.Now()
	for _, r := range g.open.remove(key, func(r *call.Record) bool { return !r.Deadline.After(now) }) {
		g.endWaiting(ctx, r, parley.Judge(parley.ShapeDeadline).Outcome, string(parley.ShapeDeadline), "the task was not final at the call's deadline", "")
	}
	g.endOrphans(ctx, key)
	waiting, followed := g.open.state(key)
	switch {
	case !waiting:
		g.forgetLost(key)
		return true
	case followed:
		return false // a stream of a caller's shows it already
	}
	task, err := g.peek(ctx, key)
	if a2aReason(err) == a2a.ReasonTaskNotFound {
		return g.lost(ctx, key)
	}
	g.forgetLost(key)
	if err != nil {
		g.Log.Debug("watched task not seen", "agent", key.Agent, "err", err)
		return false
	}
	return task.Final
}

// endOrphans ends the calls of an agent that was removed: nobody will tell how
// their task ends. An agent of the same name that was added later is another
// one, and is neither asked nor blamed for them.
func (g *Gateway) endOrphans(ctx context.Context, key call.TaskKey) {
	target, err := g.Agents.Lookup(ctx, key.Agent)
	if err != nil && parley.KindOf(err) != parley.NotFound {
		return // the store is away: the next look tries again
	}
	removed := func(r *call.Record) bool { return err != nil || target.Agent.CreatedAt.After(r.Begun) }
	for _, r := range g.open.remove(key, removed) {
		g.endWaiting(ctx, r, parley.OutcomeUnknown, "agent_removed", "the agent was removed before the task was final", "")
	}
	if err != nil {
		return
	}
	for _, r := range g.open.remove(key, func(r *call.Record) bool { return removedInstance(target, key, r) }) {
		g.endWaiting(ctx, r, parley.OutcomeUnknown, "instance_removed", "the agent's instance was removed before the task was final", "")
	}
}

// lost counts an agent's not knowing a task it had named. An agent that says so
// three times in a row has lost it, and the calls end as a crash.
func (g *Gateway) lost(ctx context.Context, key call.TaskKey) (done bool) {
	if g.countLost(key) < maxLost {
		return false
	}
	g.forgetLost(key)
	for _, r := range g.open.take(key) {
		g.endWaiting(ctx, r, parley.OutcomeCrash, string(a2a.ReasonTaskNotFound), "the agent no longer knows the task it had named", "")
	}
	return true
}

func (g *Gateway) countLost(key call.TaskKey) int {
	g.lostMu.Lock()
	defer g.lostMu.Unlock()
	g.lostTasks[key]++
	return g.lostTasks[key]
}

func (g *Gateway) forgetLost(key call.TaskKey) {
	g.lostMu.Lock()
	defer g.lostMu.Unlock()
	delete(g.lostTasks, key)
}

// peek asks an agent for a task on the mesh's own account, keeps what it says
// and ends the calls that waited for it. Errors: a *a2a.Error where the agent
// said so, else why there was no answer.
func (g *Gateway) peek(ctx context.Context, key call.TaskKey) (*call.Task, error) {
	known, err := g.Journal.Task(ctx, key)
	if err != nil {
		return nil, err
	}
	reply, err := g.ask(ctx, key, a2a.GetTask, a2a.GetTaskRequest{ID: key.ID})
	if err != nil {
		return nil, err
	}
	f := &reply.Facts
	if f.TaskID != key.ID || f.State == "" {
		return nil, fmt.Errorf("agent %s answered GetTask with something else", key.Agent)
	}
	fresh := *known
	fresh.State, fresh.Final, fresh.UpdatedAt = string(f.State), f.State.Terminal(), g.Now()
	fresh.StatusAt = statusAt(f, fresh.UpdatedAt, known.State, known.StatusAt)
	fresh.Snapshot = g.taskObject(reply.Result)
	if err := g.Journal.Settle(ctx, call.Settlement{Task: &fresh}, true); err != nil {
		return nil, err
	}
	if fresh.Final {
		g.finish(ctx, key, fresh.State)
	}
	return &fresh, nil
}

// ask sends a request of the mesh's own about a task to where that lives.
func (g *Gateway) ask(ctx context.Context, key call.TaskKey, m a2a.Method, params any) (*a2a.Reply, error) {
	home, err := g.Agents.Lookup(ctx, key.Agent)
	if err != nil {
		return nil, err
	}
	target := home.At(key.Instance)
	if target == nil {
		return nil, parley.E("gateway.ask", parley.NotFound, parley.Subject(key.Agent), fmt.Sprintf("agent %s has no instance %s any more", key.Agent, key.Instance), nil)
	}
	if err := target.Ready(); err != nil {
		return nil, err
	}
	reply, err := g.askAt(ctx, target, m, params)
	if err != nil {
		return nil, err
	}
	if reply.Err != nil {
		return nil, reply.Err
	}
	return reply, nil
}
