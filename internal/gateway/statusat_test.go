package gateway

import (
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
)

func TestStatusAt(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return now.Add(d) }
	const working, asks = a2a.StateWorking, a2a.StateInputRequired
	for _, test := range []struct {
		name  string
		says  time.Time
		known a2a.TaskState
		at    time.Time
		want  time.Time
	}{
		{"the agent's own time", at(-time.Hour), "", time.Time{}, at(-time.Hour)},
		{"a clock that is a little ahead", at(clockSkew), "", time.Time{}, at(clockSkew)},
		{"the far future", now.AddDate(8000, 0, 0), "", time.Time{}, now},
		{"the far future, again in the same state", now.AddDate(8000, 0, 0), working, at(-time.Minute), at(-time.Minute)},
		{"the far future, in another state", now.AddDate(8000, 0, 0), asks, at(-time.Minute), now},
		{"no time", time.Time{}, "", time.Time{}, now},
		{"no time, again in the same state", time.Time{}, working, at(-time.Minute), at(-time.Minute)},
		{"no time behind a clock that is ahead", time.Time{}, asks, at(time.Second), at(time.Second)},
		{"a time before that of the state before", at(-time.Hour), asks, at(-time.Minute), at(-time.Minute)},
	} {
		f := &a2a.Facts{State: working, StatusTime: a2a.Timestamp{Time: test.says}}
		if got := statusAt(f, now, string(test.known), test.at); !got.Equal(test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
