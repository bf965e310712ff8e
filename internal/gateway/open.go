package gateway

import (
	"context"
	"sync"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// openCalls is the process's own view of the calls that have not ended: those
// in an exchange with their agent, and those whose exchange is over while
// their task is not.
type openCalls struct {
	mu     sync.Mutex
	live   map[parley.CallID]*liveCall     // guarded by mu
	idle   map[call.TaskKey][]*call.Record // guarded by mu; waiting for their task to become final
	byID   map[parley.CallID]call.TaskKey  // guarded by mu; the idle ones
	onTask map[call.TaskKey]int            // guarded by mu; live exchanges that follow a task
	frozen map[parley.PrincipalName]bool   // guarded by mu; whose exchanges end at once
	over   error                           // guarded by mu; why all exchanges end at once; nil: they do not
}

// liveCall is a call in exchange with its agent.
type liveCall struct {
	cancel context.CancelCauseFunc
	agent  parley.AgentName
	caller parley.PrincipalName
	task   call.TaskKey // zero until known
}

func newOpenCalls() *openCalls {
	return &openCalls{
		live:   map[parley.CallID]*liveCall{},
		idle:   map[call.TaskKey][]*call.Record{},
		byID:   map[parley.CallID]call.TaskKey{},
		onTask: map[call.TaskKey]int{},
	}
}

// start notes a call that goes to its agent; cancel ends the exchange.
func (o *openCalls) start(r *call.Record, cancel context.CancelCauseFunc) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.live[r.ID] = &liveCall{cancel: cancel, agent: r.Agent, caller: r.Caller}
	if o.frozen[r.Caller] { // since it was identified
		cancel(errFrozen)
	}
	if o.over != nil {
		cancel(o.over)
	}
}

// follow notes which task a live call works on.
func (o *openCalls) follow(id parley.CallID, key call.TaskKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l := o.live[id]; l != nil && l.task == (call.TaskKey{}) {
		l.task = key
		o.onTask[key]++
	}
}

// stop notes that a call's exchange is over. A record that is still open waits
// for its task from now on.
func (o *openCalls) stop(r *call.Record, key call.TaskKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l := o.live[r.ID]; l != nil {
		delete(o.live, r.ID)
		if l.task != (call.TaskKey{}) {
			o.leave(l.task)
		}
	}
	if r.Open() {
		o.wait(r, key)
	}
}

// leave counts one exchange less on a task. The caller holds mu.
func (o *openCalls) leave(key call.TaskKey) {
	if o.onTask[key]--; o.onTask[key] <= 0 {
		delete(o.onTask, key)
	}
}

// restore takes up a call that was open when the process started.
func (o *openCalls) restore(r *call.Record, key call.TaskKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wait(r, key)
}

// wait keeps a copy of an open record until its task is final. The caller
// holds mu.
func (o *openCalls) wait(r *call.Record, key call.TaskKey) {
	kept := *r
	o.idle[key] = append(o.idle[key], &kept)
	o.byID[r.ID] = key
}

// take hands over all waiting calls of a task: the caller ends them.
func (o *openCalls) take(key call.TaskKey) []*call.Record {
	o.mu.Lock()
	defer o.mu.Unlock()
	records := o.idle[key]
	delete(o.idle, key)
	for _, r := range records {
		delete(o.byID, r.ID)
	}
	return records
}

// ask notes on the waiting calls of a task what their agent asks for, and gives
// copies of those that did not have it.
func (o *openCalls) ask(key call.TaskKey, asked call.Asked) (news []call.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.idle[key] {
		if r.Asked == nil {
			r.Asked, r.TaskState = &asked, string(a2a.StateAuthRequired)
			news = append(news, *r)
		}
	}
	return news
}

// remove hands over the waiting calls of a task for which which is true.
func (o *openCalls) remove(key call.TaskKey, which func(*call.Record) bool) []*call.Record {
	o.mu.Lock()
	defer o.mu.Unlock()
	var removed, kept []*call.Record
	for _, r := range o.idle[key] {
		if !which(r) {
			kept = append(kept, r)
			continue
		}
		removed = append(removed, r)
		delete(o.byID, r.ID)
	}
	if len(kept) == 0 {
		delete(o.idle, key)
	} else {
		o.idle[key] = kept
	}
	return removed
}

// state tells of a task whether calls wait for it and whether a live exchange
// follows it already.
func (o *openCalls) state(key call.TaskKey) (waiting, followed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.idle[key]) > 0, o.onTask[key] > 0
}

// find tells where an open call is: waiting on a task, or live with a way to
// end its exchange. Both are zero where the call is not open here.
func (o *openCalls) find(id parley.CallID) (key call.TaskKey, cancel context.CancelCauseFunc) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l := o.live[id]; l != nil {
		return l.task, l.cancel
	}
	return o.byID[id], nil
}

// freeze ends the live exchanges of these callers, and those that they begin
// from now on.
func (o *openCalls) freeze(callers []parley.PrincipalName) (ended int) {
	frozen := make(map[parley.PrincipalName]bool, len(callers))
	for _, name := range callers {
		frozen[name] = true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.frozen = frozen
	if len(frozen) == 0 {
		return 0
	}
	for _, l := range o.live {
		if frozen[l.caller] {
			l.cancel(errFrozen)
			ended++
		}
	}
	return ended
}

// cancelAll ends every live exchange, and those that are begun from then on: the
// last resort of a shutdown.
func (o *openCalls) cancelAll(cause error) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = cause
	for _, l := range o.live {
		l.cancel(cause)
	}
	return len(o.live)
}
