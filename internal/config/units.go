package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ByteSize is a number of bytes. It is written with a binary unit, as in
// "64KiB" or "4MiB", and prints in the largest unit that is exact.
type ByteSize int64

// The units of a ByteSize.
const (
	Byte ByteSize = 1
	KiB           = 1024 * Byte
	MiB           = 1024 * KiB
	GiB           = 1024 * MiB
)

// sizeUnits is ordered from the largest, which both printing and parsing rely
// on: "B" is a suffix of all the others.
var sizeUnits = []struct {
	name string
	size ByteSize
}{{"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", Byte}}

// ParseByteSize reads a whole number followed by B, KiB, MiB or GiB. Its
// errors say what to write instead.
func ParseByteSize(text string) (ByteSize, error) {
	for _, unit := range sizeUnits {
		digits, ok := strings.CutSuffix(text, unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n < 0 {
			break
		}
		if n > math.MaxInt64/int64(unit.size) {
			return 0, fmt.Errorf("%q is too large to count in bytes", text)
		}
		return ByteSize(n) * unit.size, nil
	}
	if _, err := strconv.ParseUint(text, 10, 64); err == nil {
		return 0, fmt.Errorf("%q has no unit: write %sB, %sKiB or %sMiB", text, text, text, text)
	}
	return 0, fmt.Errorf("%q is not a size: write a whole number and B, KiB, MiB or GiB, as in 4MiB", text)
}

// String returns the size in the largest unit that is exact.
func (s ByteSize) String() string {
	for _, unit := range sizeUnits {
		if s != 0 && s%unit.size == 0 {
			return strconv.FormatInt(int64(s/unit.size), 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// parseDuration is time.ParseDuration with whole days added ("30d"), without
// signs, and with errors that say what to write.
func parseDuration(text string) (time.Duration, error) {
	if digits, ok := strings.CutSuffix(text, "d"); ok {
		days, err := strconv.ParseInt(digits, 10, 64)
		if err == nil && days >= 0 && days <= int64(math.MaxInt64/day) {
			return time.Duration(days) * day, nil
		}
	}
	if _, err := strconv.ParseUint(text, 10, 64); err == nil && text != "0" {
		return 0, fmt.Errorf("%q has no unit: write %sms, %ss, %sm or %sh", text, text, text, text, text)
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a duration: write a number and ms, s, m, h or d, as in 10s or 30d", text)
	}
	return d, nil
}

// formatDuration prints what parseDuration reads, without zero parts and with
// days from two days on.
func formatDuration(d time.Duration) string {
	if d >= 2*day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	text := d.String()
	if rest, ok := strings.CutSuffix(text, "m0s"); ok {
		text = rest + "m"
	}
	if rest, ok := strings.CutSuffix(text, "h0m"); ok {
		text = rest + "h"
	}
	return text
}
