package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// tickInterval is the time between two events of a ticking agent.
const tickInterval = 100 * time.Millisecond

// ticks makes the events of a ticking agent: while a stream is open one each
// tickInterval, the same for all streams. It is safe for concurrent use.
type ticks struct {
	mu   sync.Mutex
	open int // streams
	seq  uint64
	last *beat
	stop chan struct{} // ends what makes the events
}

// beat is one event and, once there is one, the next.
type beat struct {
	text  []byte // a JSON string
	after chan struct{}
	next  *beat // valid once after is closed
}

// join opens a stream of the events that follow what it returns.
func (t *ticks) join() *beat {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open++
	if t.open == 1 {
		t.last, t.stop = &beat{after: make(chan struct{})}, make(chan struct{})
		go t.run(t.stop) // ends with the last stream
	}
	return t.last
}

func (t *ticks) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open--; t.open == 0 {
		close(t.stop)
	}
}

func (t *ticks) run(stop <-chan struct{}) {
	pace := time.NewTicker(tickInterval)
	defer pace.Stop()
	for {
		select {
		case <-pace.C:
			if !t.add(stop) {
				return
			}
		case <-stop:
			return
		}
	}
}

// add makes the next event; false when other streams have begun since.
func (t *ticks) add(stop <-chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-stop:
		return false
	default:
	}
	t.seq++
	next := &beat{after: make(chan struct{})}
	next.text = fmt.Appendf(nil, `"%s%d %d %d %s"`, tickMark, t.seq, t.open, time.Now().UnixNano(), filler(pieceTextBytes))
	t.last.next = next
	close(t.last.after)
	t.last = next
	return true
}

// tickMark begins the text of a tick; its number, the streams that are open at
// the agent and the time in nanoseconds follow.
const tickMark = "tick "

var errNoTick = errors.New("no tick of the agent")

// ticked is what an event says of its tick.
type ticked struct {
	seq     uint64
	streams int // open at the agent
	at      time.Time
}

// readTick finds the tick in an event.
func readTick(event []byte) (ticked, error) {
	_, rest, found := bytes.Cut(event, []byte(`"`+tickMark))
	fields := bytes.SplitN(rest, []byte(" "), 4)
	if !found || len(fields) < 4 {
		return ticked{}, fmt.Errorf("event %.200q: %w", event, errNoTick)
	}
	var read ticked
	seq, seqErr := strconv.ParseUint(string(fields[0]), 10, 64)
	streams, streamsErr := strconv.Atoi(string(fields[1]))
	at, atErr := strconv.ParseInt(string(fields[2]), 10, 64)
	if seqErr != nil || streamsErr != nil || atErr != nil {
		return ticked{}, fmt.Errorf("event %.200q: %w", event, errNoTick)
	}
	read.seq, read.streams, read.at = seq, streams, time.Unix(0, at)
	return read, nil
}

// tick answers with the agent's n-th task and every tick from now on, until the
// caller leaves.
func (a *Agent) tick(ctx context.Context, w http.ResponseWriter, id []byte, n uint64) {
	at := a.ticks.join()
	defer a.ticks.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	flush := http.NewResponseController(w)
	event := append([]byte(nil), "data: "...)
	event = appendResult(event, id)
	head := len(event)
	event = a.appendTask(event, n, "TASK_STATE_WORKING")
	event = append(event, "}}}\n\n"...)
	for {
		if _, err := w.Write(event); err != nil {
			return
		}
		if err := flush.Flush(); err != nil {
			return
		}
		select {
		case <-at.after:
			at = at.next
		case <-ctx.Done():
			return
		}
		event = a.appendUpdate(event[:head], n, "artifactUpdate")
		event = append(event, `"artifact":{"artifactId":"answer","parts":[{"text":`...)
		event = append(event, at.text...)
		event = append(event, "}]}}}}\n\n"...)
	}
}

// taskOf returns the number of the agent's task that params name.
func (a *Agent) taskOf(params []byte) (n uint64, ok bool) {
	var id []byte
	err := members(params, func(name, value []byte) {
		if string(name) == "id" {
			id = value
		}
	})
	digits, ours := bytes.CutPrefix(bytes.Trim(id, `"`), []byte("t-"+a.prefix))
	if err != nil || !ours {
		return 0, false
	}
	n, err = strconv.ParseUint(string(digits), 16, 64)
	return n, err == nil
}
