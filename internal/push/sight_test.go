package push_test

import (
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/push"
)

func TestSightTells(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 5000, time.UTC)
	working := push.Sight{State: "TASK_STATE_WORKING", At: at, Digest: "a"}
	bare := push.Sight{State: "TASK_STATE_WORKING"}
	done := push.Sight{State: "TASK_STATE_COMPLETED", At: at, Digest: "c"}
	for _, test := range []struct {
		name string
		seen string
		now  push.Sight
		want bool
	}{
		{"nothing was seen", "", bare, true},
		{"the same", working.Mark(), working, false},
		{"other content", working.Mark(), push.Sight{State: working.State, At: at, Digest: "b"}, true},
		{"the same content at another hour of the same moment", push.Sight{State: working.State, At: at.In(time.FixedZone("x", 3600))}.Mark(), working, false},
		{"content not known, same time", push.Sight{State: working.State, At: at}.Mark(), working, false},
		{"content not known, other time", push.Sight{State: working.State, At: at.Add(time.Second)}.Mark(), working, true},
		{"content and time not known", bare.Mark(), working, false},
		{"another state", bare.Mark(), done, true},
		{"after the end", done.Mark(), working, false},
		{"the end with other content", done.Mark(), push.Sight{State: done.State, At: at, Digest: "d"}, false},
	} {
		if got := test.now.Tells(test.seen); got != test.want {
			t.Errorf("%s: tells %t, want %t (seen %q, now %q)", test.name, got, test.want, test.seen, test.now.Mark())
		}
	}
}

func TestPace(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	p, r := push.Pace{First: time.Second, Max: 5 * time.Second}, &push.Relay{}
	for i, step := range []struct {
		changed bool
		want    time.Duration
	}{{false, time.Second}, {false, 2 * time.Second}, {false, 4 * time.Second}, {false, 5 * time.Second}, {true, time.Second}, {false, 2 * time.Second}} {
		if p.Next(r, now, step.changed); r.LookAt.Sub(now) != step.want {
			t.Errorf("look %d is in %v, want %v", i, r.LookAt.Sub(now), step.want)
		}
	}
}

func TestTokenMatches(t *testing.T) {
	hash := push.HashToken("token")
	for token, want := range map[string]bool{"token": true, "Token": false, "": false, "token ": false} {
		if push.TokenMatches(hash, token) != want {
			t.Errorf("%q: want %t", token, want)
		}
	}
	if push.TokenMatches(nil, "") || push.TokenMatches(nil, "token") {
		t.Error("a token matches no hash")
	}
}
