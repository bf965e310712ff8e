package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Bounds of held streams.
const (
	holdOpeners = 16              // connections opened at the same time
	holdTime    = 5 * time.Minute // after which a held stream fails
)

var errSecondEvent = errors.New("a second event in a stream that should idle")

// HoldStreams reads one Spec from in, opens a stream on each of its
// connections, prints one line to out when each has had its first event, and
// holds them until in ends. It is an error when one of them has ended or
// carried anything but comments by then.
func HoldStreams(ctx context.Context, in io.Reader, out io.Writer) error {
	var spec Spec
	decoder := json.NewDecoder(in)
	if err := decoder.Decode(&spec); err != nil {
		return fmt.Errorf("hold: decode spec: %w", err)
	}
	if spec.Conns < 1 || len(spec.URLs) == 0 {
		return fmt.Errorf("hold: want connections and an address, got %d and %d", spec.Conns, len(spec.URLs))
	}
	spec.Stream = true
	broken := make(chan error, 1)
	held, err := holdAll(ctx, spec, broken, func(_, nth int, _ time.Time, _ []byte) error {
		if nth > 0 {
			return errSecondEvent
		}
		return nil
	})
	defer held.end()
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(started{}); err != nil {
		return fmt.Errorf("hold: %w", err)
	}
	return untilReleased(ctx, in, broken)
}

// untilReleased waits for the end of in or of ctx, or for a stream that breaks.
func untilReleased(ctx context.Context, in io.Reader, broken <-chan error) error {
	released := make(chan struct{})
	go func() { // ends with in, at the latest with the process
		defer close(released)
		io.Copy(io.Discard, in) // its error means the same as its end
	}()
	select {
	case <-released:
	case <-ctx.Done():
	case err := <-broken:
		return fmt.Errorf("a held stream broke: %w", err)
	}
	return nil
}

// holding is a set of open streams.
type holding struct {
	conns    []*conn
	readers  errgroup.Group
	stopping atomic.Bool
	visit    visitEvent
	broken   chan<- error
}

// visitEvent is told of the nth event of a stream, from 0, and when it was there.
// An error ends the stream.
type visitEvent func(stream, nth int, there time.Time, event []byte) error

// holdAll opens the streams of spec and tells visit of their events, of several
// streams at once. Broken takes a failure after a stream's first event, without
// anybody waiting for it. What holdAll returns must be ended, also after an error.
func holdAll(ctx context.Context, spec Spec, broken chan<- error, visit visitEvent) (*holding, error) {
	h := &holding{conns: make([]*conn, spec.Conns), broken: broken, visit: visit}
	until := time.Now().Add(holdTime)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(holdOpeners)
	for i := range h.conns {
		group.Go(func() error {
			c, err := dial(ctx, spec, spec.URLs[i%len(spec.URLs)], until)
			if err != nil {
				return err
			}
			h.conns[i] = c
			first := make(chan error, 1)
			h.readers.Go(func() error { h.read(i, c, first); return nil }) // ends with the connection
			select {
			case err := <-first:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}
	if err := group.Wait(); err != nil {
		return h, fmt.Errorf("open streams: %w", err)
	}
	return h, nil
}

// read sends the request of one stream, reports its first event or why there
// is none, and then reads until the connection ends.
func (h *holding) read(i int, c *conn, first chan<- error) {
	seen := 0
	err := c.openStream(func(event []byte) error {
		there := time.Now()
		err := checkReply(event, c.request.id)
		if err == nil {
			err = h.visit(i, seen, there, event)
		}
		if seen == 0 {
			first <- err
		}
		seen++
		return err
	})
	if err == nil {
		err = io.ErrUnexpectedEOF // the stream came to an end of its own
	}
	if seen == 0 {
		first <- err
		return
	}
	if h.stopping.Load() {
		return
	}
	select {
	case h.broken <- err:
	default: // another one was first
	}
}

// end closes the streams and waits for their readers.
func (h *holding) end() {
	h.stopping.Store(true)
	for _, c := range h.conns {
		if c != nil {
			c.net.Close() // nothing is left to be read
		}
	}
	_ = h.readers.Wait() // readers return no error
}

// openStream sends the connection's request and calls visit with each event
// until the stream ends.
func (c *conn) openStream(visit func(event []byte) error) error {
	content, err := c.ask()
	if err != nil {
		return err
	}
	return eachEvent(bufio.NewReaderSize(&content, heldBufferBytes), visit)
}

// heldBufferBytes holds the longest line of a held stream.
const heldBufferBytes = 4 << 10
