package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// Waits between attempts to go on with a broken stream.
const (
	firstRetry = 200 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// maxEvent bounds one message of a stream, in bytes.
const maxEvent = 1 << 20

// FromNow is the place at which FollowEvents starts with what happens next.
const FromNow = -1

// Events lists events behind a place, oldest first.
func (c *Client) Events(ctx context.Context, after int64, l List) (out Page[Event], err error) {
	q := l.values()
	if after > 0 {
		q.Set("after", strconv.FormatInt(after, 10))
	}
	err = c.do(ctx, request{op: "control.events", method: http.MethodGet, path: "/events", query: q}, &out)
	return out, err
}

// FollowEvents gives events behind a place to each, in order and each once,
// until ctx ends (nil), each gives an error (which it gives), or the mesh
// refuses. A broken connection is opened again behind the last event; before
// the first connection stands, that no mesh answers is an error.
func (c *Client) FollowEvents(ctx context.Context, after int64, each func(Event) error) error {
	wait, connected := firstRetry, false
	for {
		stood, err := c.stream(ctx, &after, each)
		connected = connected || stood
		if ctx.Err() != nil {
			return nil
		}
		if stop, ok := errors.AsType[*stopped](err); ok {
			return stop.err
		}
		if err != nil && (!connected || !parley.KindOf(err).Info().Retry) {
			return err
		}
		if stood {
			wait = firstRetry
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, lastRetry)
		case <-ctx.Done():
			return nil
		}
	}
}

// stopped marks an error of the caller's own function.
type stopped struct{ err error }

func (s *stopped) Error() string { return s.err.Error() }

// stream reads one connection to its end and moves after along. It reports
// whether the connection stood.
func (c *Client) stream(ctx context.Context, after *int64, each func(Event) error) (stood bool, _ error) {
	const op = "control.followEvents"
	r := request{op: op, method: http.MethodGet, path: "/events/stream", header: http.Header{"Accept": {"text/event-stream"}}}
	if *after >= 0 {
		r.header.Set("Last-Event-ID", strconv.FormatInt(*after, 10))
	} else {
		r.query = url.Values{"after": {"-1"}}
	}
	resp, err := c.send(ctx, r)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxEvent))
		if err != nil {
			return false, c.lost(ctx, op, err)
		}
		return false, c.failed(op, resp, body, nil)
	}
	err = readStream(resp.Body, after, each)
	if _, own := errors.AsType[*stopped](err); own {
		return true, err
	}
	return true, c.lost(ctx, op, err)
}

// readStream reads the messages of a stream. The opening comment tells the
// place, so that a stream that breaks before its first event loses none.
func readStream(body io.Reader, after *int64, each func(Event) error) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 4096), maxEvent)
	for lines.Scan() {
		line := lines.Bytes()
		if place, ok := bytes.CutPrefix(line, []byte(placeComment)); ok && *after < 0 {
			if n, err := strconv.ParseInt(string(place), 10, 64); err == nil {
				*after = n
			}
			continue
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		var e Event
		if err := json.Unmarshal(data, &e); err != nil {
			return err
		}
		if err := each(e); err != nil {
			return &stopped{err}
		}
		*after = e.Place()
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}
