package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// FollowTask reads one Spec from in and opens streams of one task of a ticking
// agent, one on each of its connections; where the spec names no task it makes
// one first, by a stream of its own. When all are open it prints one line to
// out, which names the task, measures how long events take from the agent to
// each stream, prints the Result as a second line, and holds the streams until
// in ends. An event that a stream misses is an error.
func FollowTask(ctx context.Context, in io.Reader, out io.Writer) error {
	var spec Spec
	decoder := json.NewDecoder(in)
	if err := decoder.Decode(&spec); err != nil {
		return fmt.Errorf("follow: decode spec: %w", err)
	}
	if err := spec.check(); err != nil {
		return err
	}
	f := &following{readers: make([]reader, spec.Conns), done: make(chan struct{}), broken: make(chan error, 1)}
	f.behind.Store(int64(spec.Conns))
	if spec.Task == "" {
		maker := spec
		maker.Conns = 1
		made, err := holdAll(ctx, maker, f.broken, func(_, nth int, _ time.Time, event []byte) (err error) {
			if nth == 0 {
				spec.Task, err = toldTask(event)
			}
			return err
		})
		defer made.end()
		if err != nil {
			return err
		}
	}
	held, err := holdAll(ctx, spec, f.broken, f.event)
	defer held.end()
	if err != nil {
		return err
	}
	lines := json.NewEncoder(out)
	if err := lines.Encode(started{Task: spec.Task}); err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	result, err := f.measure(ctx, spec)
	if err != nil {
		return err
	}
	if err := lines.Encode(result); err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	return untilReleased(ctx, in, f.broken)
}

// followTime is how long after the measured window its events may still be on
// their way.
const followTime = 30 * time.Second

// following is the streams of one task.
type following struct {
	begin, end atomic.Int64 // the window, in nanoseconds since 1970; 0: not yet
	readers    []reader
	behind     atomic.Int64  // streams without an event from behind the window
	done       chan struct{} // closed when there are none
	broken     chan error
}

// reader is what one stream has seen. Its figures are final once done is closed.
type reader struct {
	seq     uint64
	delays  []time.Duration
	streams int // at the agent, the most of all counted events
	passed  bool
}

// event takes the nth event of one stream, which was there at a time.
func (f *following) event(stream, nth int, there time.Time, event []byte) error {
	if nth == 0 { // the task as it stands
		_, err := toldTask(event)
		return err
	}
	tick, err := readTick(event)
	if err != nil {
		return err
	}
	r := &f.readers[stream]
	if nth > 1 && tick.seq != r.seq+1 {
		return fmt.Errorf("event %d follows event %d in a stream", tick.seq, r.seq)
	}
	r.seq = tick.seq
	made, begin, end := tick.at.UnixNano(), f.begin.Load(), f.end.Load()
	switch {
	case r.passed || begin == 0 || made < begin:
	case end == 0 || made < end:
		r.delays, r.streams = append(r.delays, there.Sub(tick.at)), max(r.streams, tick.streams)
	default:
		r.passed = true
		if f.behind.Add(-1) == 0 {
			close(f.done)
		}
	}
	return nil
}

// measure counts the events that the agent makes in one window, until every
// stream has had them all.
func (f *following) measure(ctx context.Context, spec Spec) (Result, error) {
	if err := pause(ctx, spec.Warmup); err != nil {
		return Result{}, err
	}
	before, err := usageOf(spec)
	if err != nil {
		return Result{}, err
	}
	begin := time.Now()
	f.begin.Store(begin.UnixNano())
	if err := pause(ctx, spec.Duration); err != nil {
		return Result{}, err
	}
	end := time.Now()
	f.end.Store(end.UnixNano())
	after, err := usageOf(spec)
	if err != nil {
		return Result{}, err
	}
	late := time.NewTimer(followTime)
	defer late.Stop()
	select {
	case <-f.done:
	case err := <-f.broken:
		return Result{}, fmt.Errorf("a stream of the task broke: %w", err)
	case <-late.C:
		return Result{}, fmt.Errorf("%d of %d streams are more than %s behind", f.behind.Load(), len(f.readers), followTime)
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
	var delays []time.Duration
	streams := 0
	for i := range f.readers {
		r := &f.readers[i] // goes on reading, but counts no more
		delays, streams = append(delays, r.delays...), max(streams, r.streams)
	}
	result, err := summarise(window{elapsed: end.Sub(begin), cpu: usage{watched: after.watched - before.watched}}, delays, nil)
	result.AgentStreams = streams
	return result, err
}

// toldTask returns the id of the task that an event tells.
func toldTask(event []byte) (string, error) {
	var told struct {
		Result struct {
			Task struct {
				ID string `json:"id"`
			} `json:"task"`
		} `json:"result"`
	}
	if err := json.Unmarshal(event, &told); err != nil || told.Result.Task.ID == "" {
		return "", fmt.Errorf("event %.200q: want a task with an id", event)
	}
	return told.Result.Task.ID, nil
}
