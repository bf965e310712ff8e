package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/stream"
)

// regain goes on with a task whose stream broke or was lost with the mesh: by a
// new stream of the agent's, or by asking for the task, ever more rarely. What
// happened meanwhile is told by one Task that is marked as reconciled. It returns
// nil once there is a stream again.
func (h *hub) regain(src *source) error {
	g := h.g
	learnt, delay := g.Now(), regainFirst
	subscribe, lost := !src.stuck && !src.over.Load(), 0
	for {
		if subscribe {
			err := h.resubscribe(src)
			if err == nil || src.exchange.Err() != nil || errors.Is(err, errTaken) {
				return err
			}
			subscribe = a2aReason(err) == "" // an agent that says no means it
		}
		fresh, err := h.reconcile(src)
		switch {
		case src.exchange.Err() != nil:
			return context.Cause(src.exchange)
		case errors.Is(err, errTaken), fromStore(err):
			return err
		case err == nil && src.rests:
			return io.EOF
		case err == nil:
			learnt, lost = g.Now(), 0
			if fresh {
				delay, src.stuck = g.watch.opts.First, false
			}
		case a2aReason(err) == a2a.ReasonTaskNotFound:
			if lost++; lost >= maxLost {
				return err
			}
		}
		if g.Now().Sub(learnt) > g.limits().StreamRecovery {
			if src.broke != nil {
				return src.broke
			}
			return errCut
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-h.turned:
			timer.Stop()
			return errTurned
		case <-src.exchange.Done():
			timer.Stop()
			return context.Cause(src.exchange)
		}
		delay = min(2*delay, g.watch.opts.Max)
	}
}

// regainFirst is the pause before the second attempt to go on.
const regainFirst = 250 * time.Millisecond

// resubscribe opens a new stream of the task, on the mesh's own account. Its first
// frame, a Task, stands for what was missed.
func (h *hub) resubscribe(src *source) error {
	g := h.g
	select {
	case g.hubs.regains <- struct{}{}:
		defer func() { <-g.hubs.regains }()
	case <-src.exchange.Done():
		return context.Cause(src.exchange)
	}
	ctx, cancel := context.WithCancelCause(src.exchange)
	timer := time.AfterFunc(g.limits().FirstByte, func() { cancel(errDeadline) })
	reply, err := g.ask(ctx, h.key, a2a.SubscribeToTask, a2a.SubscribeToTaskRequest{ID: h.key.ID})
	if err != nil {
		cancel(nil)
		timer.Stop()
		return err
	}
	if reply.Stream == nil {
		cancel(nil)
		timer.Stop()
		return a2a.ErrNotA2A
	}
	inner := &ownStream{reply.Stream, func() { timer.Stop(); cancel(nil) }}
	f, err := inner.Next(ctx)
	timer.Stop()
	if err == nil && f.Err != nil {
		err = f.Err
	}
	if err == nil && (f.Facts.Kind != a2a.KindTask || f.Facts.TaskID != h.key.ID) {
		err = a2a.ErrNotA2A
	}
	if err == nil {
		_, err = h.reconciled(src, f)
	}
	if err != nil {
		return errors.Join(err, inner.Close())
	}
	if !src.use(inner) {
		return errTaken
	}
	src.stuck = true // until it shows more than this
	return nil
}

// ownStream is a stream whose exchange ends with it.
type ownStream struct {
	a2a.Stream
	done func()
}

// Close implements a2a.Stream.
func (s *ownStream) Close() error {
	err := s.Stream.Close()
	s.done()
	return err
}

// reconcile asks the agent for the task and tells subscribers what is new. It
// reports whether anything was.
func (h *hub) reconcile(src *source) (fresh bool, err error) {
	ctx, cancel := context.WithTimeout(src.exchange, h.g.watch.opts.Timeout)
	defer cancel()
	reply, err := h.g.ask(ctx, h.key, a2a.GetTask, a2a.GetTaskRequest{ID: h.key.ID})
	if err != nil {
		return false, err
	}
	if reply.Facts.TaskID != h.key.ID || reply.Facts.State == "" {
		return false, a2a.ErrNotA2A
	}
	frame, err := stream.TaskFrame(reply.Result, nil)
	if err != nil {
		return false, err
	}
	return h.reconciled(src, a2a.Frame{Result: frame, Facts: &reply.Facts})
}

// reconciled passes a whole Task on that stands for what was missed, unless it
// says what was said before.
func (h *hub) reconciled(src *source, f a2a.Frame) (fresh bool, err error) {
	if refusal := h.see(src, f); refusal != nil {
		return false, refusal
	}
	task, ok := jsonwire.Get(f.Result, "/task")
	if !ok {
		return false, a2a.ErrNotA2A
	}
	src.note(f.Facts)
	plain := task.Clone() // an agent may write the same in another order
	if err := plain.Canonicalize(); err != nil {
		return false, a2a.ErrNotA2A
	}
	if src.reconciled != nil && bytes.Equal(src.reconciled, plain) {
		return false, h.settled()
	}
	src.reconciled = plain
	if f.Result, err = stream.TaskFrame(task, map[string]any{stream.ReconciledKey: true}); err != nil {
		return false, err
	}
	f.Raw, f.Event = nil, ""
	h.keep(src, f, true)
	return true, h.settled()
}

// follow passes on what another replica, which has a stream of the task, puts into
// the journal. It returns when there is none any more: io.EOF where the task has
// come to rest, else nil, and the source has to go on by itself.
func (h *hub) follow(src *source) error {
	g := h.g
	wake, stop := g.Streams.Watch(h.key)
	defer stop()
	for {
		fed, err := g.Streams.FedElsewhere(src.exchange, h.key)
		if err != nil {
			return err
		}
		if err := h.drain(src); err != nil {
			return err
		}
		switch {
		case src.final, !fed && src.rests:
			return io.EOF
		case !fed:
			src.follows.Store(false)
			return nil
		}
		timer := time.NewTimer(followPoll)
		select {
		case <-wake:
		case <-timer.C:
		case <-h.turned:
			return errTurned
		case <-src.exchange.Done():
			return context.Cause(src.exchange)
		}
		timer.Stop()
	}
}

// followPoll is how often a hub looks whether the replica it follows is alive.
const followPoll = 5 * time.Second

// drain passes on what the journal holds behind the list.
func (h *hub) drain(src *source) error {
	g := h.g
	for {
		h.mu.Lock()
		after := h.tail.seq
		h.mu.Unlock()
		events, err := g.Streams.After(src.exchange, h.key, after, replayed)
		if err != nil || len(events) == 0 {
			return err
		}
		for _, e := range events {
			f := a2a.Frame{Result: e.Frame}
			facts, err := a2a.CheckResult(a2a.SubscribeToTask, f.Result, g.Client.Limits)
			if err == nil {
				h.watching.note(&facts, e.At)
				src.note(&facts)
				f.Facts = &facts
			}
			h.mu.Lock()
			h.publish(&node{frame: f, seq: e.Seq}, src, false)
			h.mu.Unlock()
		}
		h.watching.sees.changed = false // the other replica writes the index
	}
}

// account gives a source an exchange of the mesh's own, which ends like those of
// the task's owner.
func (g *Gateway) account(src *source) {
	var cancel context.CancelCauseFunc
	src.exchange, cancel = context.WithCancelCause(context.Background())
	src.cancel = cancel
	timer := time.AfterFunc(g.limits().CallDeadline, func() { cancel(errDeadline) })
	r := src.sees.record
	r.ID = src.id
	g.open.start(&r, cancel)
	g.open.follow(r.ID, src.sees.sees.key)
	before := src.done
	src.done = func() {
		timer.Stop()
		cancel(nil)
		r.Outcome = parley.OutcomeOK // it waits for nothing
		g.open.stop(&r, call.TaskKey{})
		if before != nil {
			before()
		}
	}
}
