package gateway

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// behind is a journal that does not keep up, or does.
type behind struct {
	Journal
	err  error
	last call.Settlement
}

func (b *behind) CanRecord() error { return b.err }

func (b *behind) Settle(_ context.Context, s call.Settlement, _ bool) error {
	b.last = s
	return nil
}

// TestReadsNeedRoomForTheirRecord: only what was refused may go without one.
func TestReadsNeedRoomForTheirRecord(t *testing.T) {
	full := parley.E("store.can_record", parley.Unavailable, "", "the disk of /data is full", nil)
	for _, test := range []struct {
		name    string
		method  a2a.Method
		full    error
		begun   bool
		refused bool
		refusal bool // as the store is told
	}{
		{"a read", a2a.GetTask, nil, false, false, false},
		{"a list", a2a.ListTasks, nil, false, false, false},
		{"a read without room", a2a.GetTask, full, false, true, true},
		{"a list without room", a2a.ListTasks, full, false, true, true},
		{"a message that was begun", a2a.SendMessage, full, true, false, false},
		{"a message that was refused", a2a.SendMessage, full, false, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			journal := &behind{err: test.full}
			g := New(Options{Journal: journal, Now: time.Now})
			c := &Call{req: &a2a.Request{Method: test.method}, begun: test.begun}
			err := g.admit(c)
			if (err != nil) != test.refused || test.refused && parley.KindOf(err) != parley.Unavailable {
				t.Errorf("let in with %v", err)
			}
			if err != nil && parley.PublicMessage(err) == full.Message {
				t.Errorf("the caller is told of the mesh's inside: %v", err)
			}
			if err := g.write(t.Context(), c, false); err != nil || journal.last.Refusal != test.refusal {
				t.Errorf("settled as a refusal: %t, %v, want %t", journal.last.Refusal, err, test.refusal)
			}
		})
	}
}

// TestFailingDiskIsLoggedOnce: by the store, and not by each call it refuses.
func TestFailingDiskIsLoggedOnce(t *testing.T) {
	for _, test := range []struct {
		kind parley.Kind
		want bool
	}{{parley.Unavailable, false}, {parley.Internal, true}, {parley.Timeout, true}} {
		var log bytes.Buffer
		g := New(Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Now: time.Now})
		c := &Call{}
		g.refuse(c, notRecorded(c, parley.E("store.begin", test.kind, "", "the disk of /data is full", nil)))
		if got := strings.Contains(log.String(), "call refused"); got != test.want {
			t.Errorf("after %s of the store the log says %q, want a line: %t", test.kind, log.String(), test.want)
		}
	}
}

// TestMessageUsesItsContext: a conversation that goes on for longer than tasks
// are kept must not lose its context to the first who names it.
func TestMessageUsesItsContext(t *testing.T) {
	journal := &behind{}
	g := New(Options{Journal: journal, Now: time.Now})
	for _, test := range []struct {
		method a2a.Method
		begun  bool
		want   string
	}{{a2a.SendMessage, true, "c"}, {a2a.SendMessage, false, ""}, {a2a.GetTask, false, ""}} {
		c := &Call{req: &a2a.Request{Method: test.method}, begun: test.begun}
		c.sees.context = "c" // the caller's, as the store knew before
		if err := g.write(t.Context(), c, false); err != nil || journal.last.Context != test.want {
			t.Errorf("%s, begun %t: the context %q is settled, %v, want %q", test.method, test.begun, journal.last.Context, err, test.want)
		}
	}
}
