package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/store"
	"github.com/parley-mesh/parley/internal/stream"
)

var journaled = call.TaskKey{Agent: "writer", Instance: "i1", ID: "task-1"}

// frames gives the frames behind a number, read a few at a time.
func frames(t *testing.T, s Store, key call.TaskKey, seq int64) (all []string) {
	t.Helper()
	for {
		events, err := s.After(t.Context(), key, seq, 3)
		must(t, err)
		if len(events) == 0 {
			return all
		}
		for _, e := range events {
			if len(all) > 0 && e.Seq != seq+1 {
				t.Fatalf("event %d follows event %d", e.Seq, seq)
			}
			seq = e.Seq
			all = append(all, fmt.Sprintf("%d=%s", e.Seq, e.Frame))
		}
	}
}

func wantBounds(t *testing.T, s Store, key call.TaskKey, first, last int64) {
	t.Helper()
	gotFirst, gotLast, err := s.Bounds(t.Context(), key)
	if must(t, err); gotFirst != first || gotLast != last {
		t.Errorf("the journal goes from %d to %d, want %d to %d", gotFirst, gotLast, first, last)
	}
}

func testJournal(t *testing.T, s Store) {
	ctx := t.Context()
	wantBounds(t, s, journaled, 0, 0)
	for i, frames := range [][][]byte{{[]byte("a")}, {[]byte("b"), []byte("c")}, nil, {[]byte("")}} {
		last, err := s.Append(ctx, journaled, "alpha", frames...)
		if want := []int64{1, 3, 3, 4}[i]; err != nil || last != want {
			t.Errorf("append %d: last %d, %v; want %d", i, last, err, want)
		}
	}
	other := journaled
	other.Instance = ""
	if last, err := s.Append(ctx, other, "beta", []byte("x")); err != nil || last != 1 {
		t.Errorf("another task's first: %d, %v", last, err)
	}
	if got := frames(t, s, journaled, 0); !slices.Equal(got, []string{"1=a", "2=b", "3=c", "4="}) {
		t.Errorf("the journal holds %q", got)
	}
	if got := frames(t, s, journaled, 3); !slices.Equal(got, []string{"4="}) {
		t.Errorf("behind 3 are %q", got)
	}
	if got := frames(t, s, journaled, 4); len(got) > 0 {
		t.Errorf("behind the last are %q", got)
	}
	wantBounds(t, s, journaled, 1, 4)
}

// One After gives large events a few at a time.
func testJournalReadsAreBounded(t *testing.T, s Store) {
	large := []byte(strings.Repeat("x", 40<<10))
	_, err := s.Append(t.Context(), journaled, "alpha", large, large, large)
	must(t, err)
	events, err := s.After(t.Context(), journaled, 0, 500)
	if must(t, err); len(events) != 2 {
		t.Errorf("one read gives %d events of 40 KiB, want 2", len(events))
	}
	if got := frames(t, s, journaled, 0); len(got) != 3 {
		t.Errorf("all reads give %d events, want 3", len(got))
	}
}

// Many goroutines add to one journal: nothing is lost, the numbers have no
// holes, and the events of each are in its order.
func testJournalOrder(t *testing.T, s Store) {
	const writers, each = 8, 25
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if _, err := s.Append(t.Context(), journaled, "alpha", fmt.Appendf(nil, "%d.%03d", w, 2*i), fmt.Appendf(nil, "%d.%03d", w, 2*i+1)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	wantBounds(t, s, journaled, 1, 2*writers*each)
	of := map[byte][]string{}
	for i, f := range frames(t, s, journaled, 0) {
		seq, text, _ := strings.Cut(f, "=")
		if seq != fmt.Sprint(i+1) {
			t.Fatalf("the event at place %d has the number %s", i+1, seq)
		}
		of[text[0]] = append(of[text[0]], text)
	}
	for w, texts := range of {
		if len(texts) != 2*each || !slices.IsSorted(texts) {
			t.Errorf("writer %c has %d events in the order %v", w, len(texts), texts)
		}
	}
}

// Of two streams of one task only the one that came last is written down.
func testJournalSource(t *testing.T, s Store) {
	first, second := parley.NewCallID(), parley.NewCallID()
	add := func(source parley.CallID, take bool, frame string) error {
		done := make(chan error, 1)
		s.AppendLater(t.Context(), stream.Entry{Task: journaled, Owner: "alpha", Source: source, Take: take,
			Frames: [][]byte{[]byte(frame)}, Done: func(_ int64, err error) { done <- err }})
		select {
		case err := <-done:
			return err
		case <-time.After(30 * time.Second):
			return errors.New("nobody was told")
		}
	}
	must(t, add(first, true, "a"))
	must(t, add(first, false, "b"))
	must(t, add(second, true, "c"))
	wantKind(t, "the first stream's next", add(first, false, "x"), parley.Conflict)
	must(t, add(second, false, "d"))
	if _, err := s.Append(t.Context(), journaled, "alpha", []byte("e")); err != nil {
		t.Errorf("somebody who is no stream: %v", err)
	}
	if got := frames(t, s, journaled, 0); !slices.Equal(got, []string{"1=a", "2=b", "3=c", "4=d", "5=e"}) {
		t.Errorf("the journal holds %q", got)
	}
}

// Entries that are handed over one behind the other are told in that order.
func testJournalLater(t *testing.T, s Store) {
	const n = 200
	told := make(chan int64, n)
	_, err := s.Append(t.Context(), journaled, "alpha", []byte("0")) // the place of the others is known then
	must(t, err)
	for i := 1; i < n; i++ {
		s.AppendLater(t.Context(), stream.Entry{Task: journaled, Owner: "alpha", Source: parley.CallID{1}, Take: i == 1,
			Frames: [][]byte{fmt.Appendf(nil, "%d", i)}, Done: func(last int64, err error) {
				if err != nil {
					t.Error(err)
				}
				told <- last
			}})
	}
	for i := 1; i < n; i++ {
		select {
		case last := <-told:
			if last != int64(i+1) {
				t.Fatalf("entry %d is told to be event %d", i, last)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("entry %d is not told of", i)
		}
	}
	for i, f := range frames(t, s, journaled, 0) {
		if f != fmt.Sprintf("%d=%d", i+1, i) {
			t.Fatalf("event %d is %s", i+1, f)
		}
	}
}

func testJournalWatch(t *testing.T, s Store) {
	wake, stop := s.Watch(journaled)
	elsewhere, stopElsewhere := s.Watch(call.TaskKey{Agent: "writer", ID: "task-2"})
	_, err := s.Append(t.Context(), journaled, "alpha", []byte("a"))
	must(t, err)
	select {
	case <-wake:
	case <-time.After(30 * time.Second):
		t.Error("who watches is not told")
	}
	stop()
	stopElsewhere()
	select {
	case <-elsewhere:
		t.Error("who watches another task is told")
	default:
	}
}

// Retention removes old events, and the sequence goes on.
func testJournalRetention(t *testing.T, s Store) {
	ctx := t.Context()
	_, err := s.Append(ctx, journaled, "alpha", []byte("a"), []byte("b"))
	must(t, err)
	gone, err := s.Prune(ctx, store.Cutoffs{Journal: time.Now().Add(-time.Hour)})
	if must(t, err); gone.Frames != 0 {
		t.Errorf("%d young events were removed", gone.Frames)
	}
	gone, err = s.Prune(ctx, store.Cutoffs{Journal: time.Now().Add(time.Hour)})
	if must(t, err); gone.Frames != 2 {
		t.Errorf("%d old events were removed, want 2", gone.Frames)
	}
	wantBounds(t, s, journaled, 3, 2)
	if last, err := s.Append(ctx, journaled, "alpha", []byte("c")); err != nil || last != 3 {
		t.Errorf("the next event has the number %d, %v; want 3", last, err)
	}
	wantBounds(t, s, journaled, 3, 3)
	_, err = s.Prune(ctx, store.Cutoffs{Unfinished: time.Now().Add(time.Hour)})
	must(t, err)
	wantBounds(t, s, journaled, 3, 3) // it holds an event
	_, err = s.Prune(ctx, store.Cutoffs{Journal: time.Now().Add(time.Hour), Unfinished: time.Now().Add(time.Hour)})
	must(t, err)
	wantBounds(t, s, journaled, 0, 0)
}

// RunJournalLimits tests what keeps the journal of one task small. open gives an
// empty store with these limits.
func RunJournalLimits(t *testing.T, open func(t *testing.T, l stream.Limits) Store) {
	for _, test := range []struct {
		name   string
		limits stream.Limits
		size   int // of a frame
		keeps  int64
	}{
		{"Events", stream.Limits{Events: 16}, 1, 16},
		{"Bytes", stream.Limits{Bytes: 16 << 10}, 1000, 15}, // sealed ones are a little larger
		{"OneIsTooLarge", stream.Limits{Bytes: 1 << 10}, 2000, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := open(t, test.limits)
			frame := []byte(strings.Repeat("x", test.size))
			for i := range int64(40) {
				last, err := s.Append(context.WithoutCancel(t.Context()), journaled, "alpha", frame)
				must(t, err)
				first, bound, err := s.Bounds(t.Context(), journaled)
				must(t, err)
				if last != i+1 || bound != last || bound-first+1 > test.keeps || bound-first+1 < min(i+1, max(1, test.keeps/2)) {
					t.Fatalf("after event %d the journal goes from %d to %d; want %d events at most, and half of them at least", last, first, bound, test.keeps)
				}
				events, err := s.After(t.Context(), journaled, 0, 100)
				must(t, err)
				if int64(len(events)) != bound-first+1 || events[0].Seq != first {
					t.Fatalf("%d events are kept from %d on, want those from %d to %d", len(events), events[0].Seq, first, bound)
				}
			}
		})
	}
}
