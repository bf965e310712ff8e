package store

import (
	"context"
	"sync"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// live is what this process knows ahead of, or quicker than, the database:
// which calls are open, and which tasks and contexts are handed over but not
// yet committed. All of it can be read back from the database.
type live struct {
	mu       sync.Mutex
	calls    map[parley.CallID]*openCall
	agents   map[parley.AgentName]*openCall // heads of rings, in order of begin
	tasks    map[call.TaskKey]*handed
	contexts map[contextKey]*handed
}

// openCall is an open call in the ring of its callee.
type openCall struct {
	call.Candidate
	agent      parley.AgentName
	seq        int64
	ending     int // handed-over ends that are not committed yet
	prev, next *openCall
}

// handed is an uncommitted claim.
type handed struct {
	principal parley.PrincipalName
	task      *call.Task // newest state; nil for contexts
	count     int
}

type contextKey struct {
	agent    parley.AgentName
	instance string
	id       string
}

func newLive() *live {
	return &live{
		calls: map[parley.CallID]*openCall{}, agents: map[parley.AgentName]*openCall{},
		tasks: map[call.TaskKey]*handed{}, contexts: map[contextKey]*handed{},
	}
}

// begun notes an open call; seq is its row, 0 where that is not committed yet.
func (l *live) begun(r *call.Record, seq int64) {
	c := &openCall{agent: r.Agent, seq: seq, Candidate: call.Candidate{
		ID: r.ID, Root: r.Root, Depth: r.Link.Depth, TaskID: r.TaskID, ContextID: r.ContextID, SpanID: r.SpanID,
	}}
	l.mu.Lock()
	defer l.mu.Unlock()
	head := l.agents[r.Agent]
	if head == nil {
		head = &openCall{}
		head.prev, head.next = head, head
		l.agents[r.Agent] = head
	}
	c.prev, c.next = head.prev, head
	head.prev.next, head.prev = c, c
	l.calls[r.ID] = c
}

// place notes the row of a call that was open before it was committed.
func (l *live) place(id parley.CallID, seq int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.calls[id]; c != nil {
		c.seq = seq
	}
}

// drop forgets an open call that got no row.
func (l *live) drop(id parley.CallID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.calls[id]; c != nil {
		l.remove(c)
	}
}

func (l *live) remove(c *openCall) {
	delete(l.calls, c.ID)
	c.prev.next, c.next.prev = c.next, c.prev
	if head := l.agents[c.agent]; head.next == head {
		delete(l.agents, c.agent)
	}
}

// seq is the row of an open call, 0 where it has none yet or is not open.
func (l *live) seq(id parley.CallID) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.calls[id]; c != nil {
		return c.seq
	}
	return 0
}

func (l *live) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls)
}

// take notes a settlement that is handed over. It reports false where the task
// or context is claimed by another principal at this moment.
func (l *live) take(s *call.Settlement) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.Task != nil {
		if h := l.tasks[s.Task.Key()]; h != nil && h.principal != s.Task.Principal {
			return false
		}
	}
	if s.Context != "" {
		if h := l.contexts[contextOf(s)]; h != nil && h.principal != s.Record.Caller {
			return false
		}
	}
	if s.Task != nil {
		if h := claim(l.tasks, s.Task.Key(), s.Task.Principal); h.task == nil || replaces(h.task, s.Task) {
			h.task = s.Task
		}
	}
	if s.Context != "" {
		claim(l.contexts, contextOf(s), s.Record.Caller)
	}
	if c := l.calls[s.Record.ID]; c != nil && !s.Record.Open() {
		c.ending++
	}
	return true
}

func claim[K comparable](m map[K]*handed, key K, principal parley.PrincipalName) *handed {
	h := m[key]
	if h == nil {
		h = &handed{principal: principal}
		m[key] = h
	}
	h.count++
	return h
}

// settled notes that a settlement is committed, or has failed.
func (l *live) settled(s *call.Settlement, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.Task != nil {
		release(l.tasks, s.Task.Key())
	}
	if s.Context != "" {
		release(l.contexts, contextOf(s))
	}
	c := l.calls[s.Record.ID]
	switch {
	case c == nil:
		return
	case s.Record.Open():
		if err == nil {
			c.TaskID, c.ContextID = s.Record.TaskID, s.Record.ContextID
		}
		return
	case err != nil:
		c.ending = max(0, c.ending-1) // begun after it was taken: never counted
		return
	}
	l.remove(c)
}

func release[K comparable](m map[K]*handed, key K) {
	if h := m[key]; h != nil {
		if h.count--; h.count == 0 {
			delete(m, key)
		}
	}
}

func contextOf(s *call.Settlement) contextKey {
	return contextKey{s.Record.Agent, s.Record.Instance, s.Context}
}

// OpenCallsOf gives the open calls whose callee is agent, in order of begin:
// the calls inside which a call of that agent may be. On SQLite it asks no
// database; on PostgreSQL, where other replicas have such calls too, it gives
// 1,000 at most.
func (db *DB) OpenCallsOf(ctx context.Context, agent parley.AgentName) ([]call.Candidate, error) {
	if db.pg != nil {
		return db.allOpenCallsOf(ctx, agent)
	}
	return db.live.openCallsOf(agent), nil
}

// candidatesMax is how many open calls of all replicas are given.
const candidatesMax = 1000

// allOpenCallsOf is OpenCallsOf of all replicas: what the database has, but for
// what this process has ended and not committed yet, and what it has begun and
// not committed.
func (db *DB) allOpenCallsOf(ctx context.Context, agent parley.AgentName) ([]call.Candidate, error) {
	found, err := query(ctx, db, scanCandidate, `SELECT id, root, depth, task_id, context_id, span_id FROM calls
		WHERE agent = ? AND ended_at IS NULL ORDER BY num LIMIT ?`, string(agent), candidatesMax)
	if err != nil {
		return nil, db.fault("store.open_calls_of", parley.Subject(agent), err)
	}
	here := db.live.openCallsOf(agent)
	known := map[parley.CallID]bool{}
	all := found[:0]
	for _, c := range found {
		if known[c.ID] = true; !db.live.endingCall(c.ID) {
			all = append(all, c)
		}
	}
	for _, c := range here {
		if !known[c.ID] && db.live.uncommitted(c.ID) {
			all = append(all, c)
		}
	}
	return all, nil
}

func scanCandidate(row scanner) (c call.Candidate, err error) {
	var id, root []byte
	err = row.Scan(&id, &root, &c.Depth, optional(&c.TaskID), optional(&c.ContextID), optional(&c.SpanID))
	copy(c.ID[:], id)
	if c.Root = c.ID; root != nil {
		copy(c.Root[:], root)
	}
	return c, err
}

// endingCall reports whether an end of the call is handed over.
func (l *live) endingCall(id parley.CallID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.calls[id]
	return c != nil && c.ending > 0
}

// uncommitted reports whether an open call has no row yet.
func (l *live) uncommitted(id parley.CallID) bool { return l.seq(id) == 0 }

// openCallsOf gives the open calls of this process whose callee is agent.
func (l *live) openCallsOf(agent parley.AgentName) []call.Candidate {
	l.mu.Lock()
	defer l.mu.Unlock()
	head := l.agents[agent]
	if head == nil {
		return nil
	}
	var found []call.Candidate
	for c := head.next; c != head; c = c.next {
		if c.ending == 0 {
			found = append(found, c.Candidate)
		}
	}
	return found
}

// catchUp makes sure that what was handed over before is committed, so that a
// read sees it. An error means that the disk fails and reads see what was
// committed before.
func (db *DB) catchUp(ctx context.Context) error {
	return db.w.do(ctx, statements(func(*tx) error { return nil }))
}

// pendingTask is the uncommitted state of a task, or nil.
func (l *live) pendingTask(k call.TaskKey) *call.Task {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.tasks[k]; h != nil {
		return h.task
	}
	return nil
}

func (l *live) pendingContext(k contextKey) (parley.PrincipalName, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.contexts[k]; h != nil {
		return h.principal, true
	}
	return "", false
}
