package config

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestUnitsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := ByteSize(rapid.Int64Min(0).Draw(t, "size"))
		if got, err := ParseByteSize(size.String()); err != nil || got != size {
			t.Errorf("size %d prints as %q, which reads as %d, %v", int64(size), size, int64(got), err)
		}
		d := time.Duration(rapid.Int64Min(0).Draw(t, "duration"))
		if got, err := parseDuration(formatDuration(d)); err != nil || got != d {
			t.Errorf("duration %d prints as %q, which reads as %d, %v", d, formatDuration(d), got, err)
		}
	})
}

func TestDurationForms(t *testing.T) {
	for text, want := range map[string]string{"24h": "24h", "48h": "2d", "30d": "30d", "90m": "1h30m", "1500ms": "1.5s", "15s": "15s", "3600s": "1h", "0": "0s"} {
		d, err := parseDuration(text)
		if err != nil || formatDuration(d) != want {
			t.Errorf("%s: got %q, %v, want %q", text, formatDuration(d), err, want)
		}
	}
	for _, text := range []string{"", "-5s", "5", "5 s", "d", "1.5d", "-1d", "99999999d", "1y"} {
		if d, err := parseDuration(text); err == nil {
			t.Errorf("%q was read as %s", text, d)
		}
	}
}
