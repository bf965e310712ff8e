package cli

import (
	"bytes"
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mesh/parley/internal/control"
)

func TestParseSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "30d": 720 * time.Hour, "0d": 0} {
		if got, err := parseSpan(text); err != nil || got != want {
			t.Errorf("parseSpan(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "d", "-1d", "-5m", "1.5d", "100001d", "9999999999999d", "soon", "5"} {
		if got, err := parseSpan(bad); err == nil {
			t.Errorf("parseSpan(%q) = %v", bad, got)
		}
	}
}

func TestParseTime(t *testing.T) {
	p, _, _ := testProgram()
	now := p.now()
	for text, want := range map[string]time.Time{
		"": {}, "2h": now.Add(-2 * time.Hour), "7d": now.Add(-168 * time.Hour),
		"2026-02-28T10:00:00Z": time.Date(2026, 2, 28, 10, 0, 0, 0, time.UTC),
		"2026-02-28":           time.Date(2026, 2, 28, 0, 0, 0, 0, time.Local),
	} {
		if got, err := p.parseTime("since", text); err != nil || !got.Equal(want) {
			t.Errorf("parseTime(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	if _, err := p.parseTime("since", "yesterday"); err == nil {
		t.Error("yesterday is a time")
	}
}

func TestAge(t *testing.T) {
	p, _, _ := testProgram()
	for d, want := range map[time.Duration]string{
		-time.Hour: "0s", 0: "0s", 119 * time.Second: "119s", 2 * time.Minute: "2m", 119 * time.Minute: "119m", 2 * time.Hour: "2h", 47 * time.Hour: "47h", 48 * time.Hour: "2d", 240 * time.Hour: "10d",
	} {
		if got := p.age(p.now().Add(-d)); got != want {
			t.Errorf("age of %v = %q, want %q", d, got, want)
		}
	}
	if got := p.age(time.Time{}); got != "" {
		t.Errorf("age of no time = %q", got)
	}
}

func TestCollectStopsAtTheLimitAndKnowsOfMore(t *testing.T) {
	const all = 7
	get := func(_ context.Context, l control.List) (control.Page[int], error) {
		at, _ := strconv.Atoi(l.Cursor) // the first page has none
		var page control.Page[int]
		for i := at; i < min(at+3, all); i++ {
			page.Items = append(page.Items, i)
		}
		if at+3 < all {
			page.Next = strconv.Itoa(at + 3)
		}
		return page, nil
	}
	for limit, want := range map[int]struct {
		n    int
		more bool
	}{0: {7, false}, 1: {1, true}, 3: {3, true}, 6: {6, true}, 7: {7, false}, 50: {7, false}} {
		items, more, err := collect(t.Context(), limit, get)
		if err != nil || len(items) != want.n || more != want.more {
			t.Errorf("limit %d: %v, more %v, %v; want %d items, more %v", limit, items, more, err, want.n, want.more)
		}
	}
}

func TestTablesAreAlignedAndClean(t *testing.T) {
	tab := columns("NAME", "SAYS", "END")
	tab.add("a", "one\ntwo\x1b[2J", "x")
	tab.add("longer", "", "y")
	var out bytes.Buffer
	if err := tab.write(&out); err != nil {
		t.Fatal(err)
	}
	want := "NAME     SAYS             END\na        one two\\x1b[2J   x\nlonger   -                y\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var f facts
	f.add("name", "x")
	f.add("empty", "")
	f.add("longer name", "two\nlines\x07")
	out.Reset()
	if err := f.write(&out); err != nil {
		t.Fatal(err)
	}
	want = "name          x\nlonger name   two\n              lines\\x07\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestKeyIDKeepsTheSecretOutOfAddresses(t *testing.T) {
	for text, want := range map[string]string{"abc": "abc", "pk_abc_secret": "abc", "pk_abc": "abc"} {
		if got := keyID(text); got != want {
			t.Errorf("keyID(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestSizes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536 << 20: "1.5 GiB", 1 << 60: "1048576.0 TiB"} {
		if got := sizeText(n); got != want {
			t.Errorf("sizeText(%d) = %q, want %q", n, got, want)
		}
	}
}
