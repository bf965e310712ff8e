package a2a

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// This file follows tasks of agents of version 0.3 in the way of 1.0. 0.3 promises a
// subscriber only what happens next, and its servers differ: they may hold even the
// headers back until something happens, leave out the last state, or refuse a task
// that has just ended. What a stream does not tell, the task itself does.

// Pauses between two looks at a task whose subscription shows nothing.
const (
	lookFirst = 500 * time.Millisecond
	lookMax   = 15 * time.Second
	// endLooks is how often more a task is looked at, lookFirst apart, whose
	// subscription has ended while it has not.
	endLooks = 2
)

// followOld subscribes to a task at an agent of 0.3: the first frame shows the
// task, and one that has ended is refused. The subscription is sent when that frame
// was taken.
func (c *Client) followOld(ctx context.Context, ep Endpoint, q *Request, header http.Header) (*Reply, error) {
	get := &Request{Version: V10, Method: GetTask, Extensions: q.Extensions,
		Params: append(append(jsontext.Value(`{"id":`), jsonwire.Quote(q.Facts.TaskID)...), '}')}
	task, err := c.do(ctx, ep, get, header)
	switch {
	case err != nil || task.Err != nil:
		return task, err
	case task.Facts.State.Terminal():
		return Fail(UnsupportedOperation("the task has ended as %s; get it instead", task.Facts.State)), nil
	}
	s := &oldSubscription{
		get:  func(ctx context.Context) (*Reply, error) { return c.do(ctx, ep, get, header) },
		open: func(ctx context.Context) (*Reply, error) { return c.do(ctx, ep, q, header) },
		last: task.Result, pause: lookFirst,
	}
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.queue = []Frame{taskFrame(task)}
	return &Reply{Status: task.Status, Header: task.Header, Received: task.Received, HeadersAt: task.HeadersAt, Stream: s}, nil
}

// taskFrame is an answer to GetTask as a frame.
func taskFrame(task *Reply) Frame {
	return Frame{Result: append(append(jsontext.Value(`{"task":`), task.Result...), '}'), Facts: &task.Facts}
}

// oldSubscription is a subscription at a 0.3 agent, opened when its first frame was
// taken. Next is called by one goroutine at a time.
type oldSubscription struct {
	get, open func(context.Context) (*Reply, error)
	ctx       context.Context // until Close
	cancel    context.CancelFunc

	queue []Frame        // to be given before anything else is read
	last  jsontext.Value // the task as it was told
	pause time.Duration  // to the next look at it
	doubt *overlap       // set once the task was told in the midst of the stream
	done  error          // nil while something may come

	began chan beginning // receives one; nil before the subscription is sent
	inner Stream         // once it began; one that never does sets done

	mu     sync.Mutex
	opened Stream // guarded by mu; what Close has to close
	closed bool   // guarded by mu
}

// beginning is how a subscription began: with its first frame, or not at all.
type beginning struct {
	stream Stream
	frame  Frame
	err    error
}

// Next implements Stream. A stream that breaks off is a success where the task says
// that it has come to rest.
func (s *oldSubscription) Next(ctx context.Context) (Frame, error) {
	for {
		switch {
		case len(s.queue) > 0:
			f := s.queue[0]
			s.queue = s.queue[1:]
			return f, nil
		case s.done != nil:
			return Frame{}, s.done
		case s.inner == nil:
			s.begin(ctx)
		default:
			f, err := s.inner.Next(ctx)
			s.take(ctx, f, err)
		}
	}
}

// begin sends the subscription and waits for its first frame. Meanwhile it looks at
// the task from time to time.
func (s *oldSubscription) begin(ctx context.Context) {
	if s.began == nil {
		s.began = make(chan beginning, 1)
		go func() { s.began <- s.start() }() // ends with Close at the latest
	}
	timer := time.NewTimer(s.pause)
	defer timer.Stop()
	select {
	case b := <-s.began:
		s.inner = b.stream
		// Whoever is told what happened must see what happened before it began.
		if b.err == nil && b.frame.Err == nil && b.frame.Facts.Kind != KindTask {
			s.look(ctx)
		}
		if s.done == nil {
			s.take(ctx, b.frame, b.err)
		}
	case <-timer.C:
		s.pause = min(2*s.pause, lookMax)
		s.look(ctx)
	case <-ctx.Done():
		s.end(ctx.Err())
	}
}

// start opens the subscription and reads its first frame.
func (s *oldSubscription) start() beginning {
	reply, err := s.open(s.ctx)
	switch {
	case err != nil:
		return beginning{err: err}
	case reply.Err != nil:
		return beginning{frame: Frame{Err: reply.Err}}
	}
	s.mu.Lock()
	s.opened = reply.Stream
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return beginning{err: errors.Join(errClosed, reply.Stream.Close())}
	}
	f, err := reply.Stream.Next(s.ctx)
	return beginning{reply.Stream, f, err}
}

// take queues what the subscription has given, or ends it.
func (s *oldSubscription) take(ctx context.Context, f Frame, err error) {
	switch {
	case ctx.Err() != nil:
		s.end(ctx.Err())
	case err != nil && !errors.Is(err, ErrEndEarly) && err != io.EOF:
		s.end(err)
	case err == io.EOF:
		s.end(io.EOF)
	case err != nil || f.Err != nil:
		// Ended without a last word, or refused: a task that has ended meanwhile is both,
		// and one that is ending may be before it says so.
		for try := 0; ; try++ {
			if s.look(ctx); s.done != nil {
				return
			}
			if try == endLooks || !wait(ctx, lookFirst) {
				break
			}
		}
		if err == nil {
			s.queue, err = append(s.queue, f), io.EOF
		}
		s.end(err)
	case f.Facts.State.Terminal() && s.doubt != nil:
		if s.look(ctx); s.done == nil {
			s.queue = append(s.queue, f)
		}
	case s.doubt == nil || !s.doubt.tells(f):
		s.queue = append(s.queue, f)
	}
}

// look asks for the task and queues it where it is not as it was told last. It ends
// the stream where the task has ended. Failures are passed over: the stream goes on.
func (s *oldSubscription) look(ctx context.Context) {
	task, err := s.get(ctx)
	if err != nil || task.Err != nil {
		return
	}
	if !bytes.Equal(task.Result, s.last) {
		task.Facts.Reconciled = true
		s.queue = append(s.queue, taskFrame(task))
		s.doubt = newOverlap(s.last, task.Result)
		s.last = task.Result
		s.pause = lookFirst
	}
	if task.Facts.State.Terminal() {
		s.end(io.EOF)
	}
}

// wait reports whether ctx lasted for d.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *oldSubscription) end(err error) {
	s.done = err
	_ = s.Close() // nothing more is read
}

// Close implements Stream.
func (s *oldSubscription) Close() error {
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed = true; s.opened == nil {
		return nil
	}
	return s.opened.Close()
}

// overlap is what a task that was told in the midst of a stream may have in common
// with the events behind it: the parts of its artifacts that are new in it, by the
// artifact's id.
type overlap struct {
	parts   map[string][]jsontext.Value
	aligned map[string]bool // a part of the artifact came
}

// newOverlap compares a task with the one that was told before.
func newOverlap(before, now jsontext.Value) *overlap {
	o := &overlap{artifactParts(now), map[string]bool{}}
	for id, known := range artifactParts(before) {
		if parts := o.parts[id]; len(known) <= len(parts) && equalParts(known, parts[:len(known)]) {
			o.parts[id] = parts[len(known):]
		}
	}
	return o
}

func artifactParts(task jsontext.Value) map[string][]jsontext.Value {
	var t struct {
		Artifacts []overlapArtifact `json:"artifacts"`
	}
	all := map[string][]jsontext.Value{}
	if json.Unmarshal(task, &t) == nil {
		for _, a := range t.Artifacts {
			all[a.ID] = a.Parts
		}
	}
	return all
}

type overlapArtifact struct {
	ID    string           `json:"artifactId"`
	Parts []jsontext.Value `json:"parts"`
}

// tells reports whether the task has told what f does. Events come in order: behind
// the first that the task holds are all those that it holds.
func (o *overlap) tells(f Frame) bool {
	if f.Facts.Kind != KindArtifactUpdate {
		return false
	}
	raw, _ := jsonwire.Get(f.Result, "/artifactUpdate/artifact")
	var a overlapArtifact
	if json.Unmarshal(raw, &a) != nil || len(a.Parts) == 0 {
		return false
	}
	rest := o.parts[a.ID]
	for i := 0; i+len(a.Parts) <= len(rest); i++ {
		if end := i + len(a.Parts); equalParts(rest[i:end], a.Parts) {
			o.parts[a.ID], o.aligned[a.ID] = rest[end:], true
			return true
		}
		if o.aligned[a.ID] {
			break
		}
	}
	delete(o.parts, a.ID)
	return false
}

func equalParts(a, b []jsontext.Value) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}
