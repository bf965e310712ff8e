package limit

import (
	"fmt"
	"testing"
	"time"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// TestTake: the burst at once, then the rate, each key for itself.
func TestTake(t *testing.T) {
	b := NewBuckets[string](Rate{PerSecond: 10, Burst: 3}, 100)
	take := func(key string, at time.Duration) time.Duration {
		err, _ := b.Take(key, start.Add(at))
		if err == nil {
			return 0
		}
		return err.RetryAfter
	}
	for i := range 3 {
		if wait := take("alice", 0); wait != 0 {
			t.Errorf("request %d of the burst must wait %v", i, wait)
		}
	}
	if wait := take("alice", 0); wait != 100*time.Millisecond {
		t.Errorf("after the burst: wait %v, want 100ms", wait)
	}
	if wait := take("bob", 0); wait != 0 {
		t.Errorf("another's requests: wait %v, want none", wait)
	}
	if wait := take("alice", 50*time.Millisecond); wait != 50*time.Millisecond {
		t.Errorf("half way: wait %v, want 50ms", wait)
	}
	if wait := take("alice", 100*time.Millisecond); wait != 0 {
		t.Errorf("once the wait is over: wait %v", wait)
	}
}

// TestTellOnce: a flood is told once a minute, however many requests it has.
func TestTellOnce(t *testing.T) {
	b := NewBuckets[string](Rate{PerSecond: 1, Burst: 1}, 100)
	told := 0
	for i := range 1800 { // 90 s, 20 requests a second
		if _, tell := b.Take("alice", start.Add(time.Duration(i)*50*time.Millisecond)); tell {
			told++
		}
	}
	if told != 2 {
		t.Errorf("told %d times in 90 s, want twice", told)
	}
}

// TestBounded: a flood of keys neither grows the table nor is let through, and
// room is made once allowances are whole again.
func TestBounded(t *testing.T) {
	b := NewBuckets[string](Rate{PerSecond: 1, Burst: 1}, 10)
	passed := 0
	for i := range 1000 {
		if err, _ := b.Take(fmt.Sprint(i), start); err == nil {
			passed++
		}
	}
	if len(b.by) != 10 || passed != 11 { // ten of their own, and one that all others share
		t.Errorf("%d entries, %d passed; want 10 and 11", len(b.by), passed)
	}
	if err, _ := b.Take("later", start.Add(2*time.Minute)); err != nil || len(b.by) != 1 {
		t.Errorf("two minutes later: %v, %d entries; want it taken, and the old ones gone", err, len(b.by))
	}
}

func TestHostOf(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.7:5555": "192.0.2.7", "[::ffff:192.0.2.7]:5555": "192.0.2.7",
		"[2001:db8:1:2:3:4:5:6]:80": "2001:db8:1:2::", "[fe80::1%eth0]:80": "fe80::",
		"@": "invalid IP", "": "invalid IP",
	} {
		if got := HostOf(remote).String(); got != want {
			t.Errorf("%q counts as %s, want %s", remote, got, want)
		}
	}
}
