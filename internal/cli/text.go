package cli

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text from agents and from other people's records may hold control
// characters that make a terminal hide, move or forge what it shows. Nothing
// of it is printed before it went through this file.

// obeyed reports whether a terminal or a text layout may act on r instead of
// showing it.
func obeyed(r rune) bool {
	switch {
	case unicode.IsControl(r), unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r), unicode.Is(unicode.Bidi_Control, r):
		return true
	case r == '\uFEFF', r >= 0xE0000 && r <= 0xE007F: // byte order mark, tags
		return true
	}
	return false
}

// cleanText makes s safe to print, keeping its lines and tabs. What a terminal
// would obey is shown as an escape.
func cleanText(s string) string {
	return clean(s, func(r rune) bool { return r == '\n' || r == '\t' })
}

// cleanLine makes s safe to print as one line.
func cleanLine(s string) string {
	s = strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ").Replace(strings.TrimSpace(s))
	return clean(s, func(rune) bool { return false })
}

func clean(s string, keep func(rune) bool) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return obeyed(r) && !keep(r) }) {
		return s
	}
	var b strings.Builder
	for _, r := range s { // an invalid byte comes as U+FFFD
		if !obeyed(r) || keep(r) {
			b.WriteRune(r)
			continue
		}
		if r < 0x100 {
			fmt.Fprintf(&b, `\x%02x`, r)
		} else {
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
	}
	return b.String()
}

// cleanJSON escapes in a JSON text what a terminal would obey and JSON allows
// in strings. It stands in strings only, so the value stays the same.
func cleanJSON(raw []byte) []byte {
	stays := func(r rune) bool { return !obeyed(r) || r == '\n' || r == '\t' || r == '\r' }
	if !strings.ContainsFunc(string(raw), func(r rune) bool { return !stays(r) }) {
		return raw
	}
	out := make([]byte, 0, len(raw)+64)
	for len(raw) > 0 {
		r, size := utf8.DecodeRune(raw)
		switch {
		case stays(r):
			out = append(out, raw[:size]...)
		case r > 0xFFFF:
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xD800+(r>>10), 0xDC00+(r&0x3FF))
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		raw = raw[size:]
	}
	return out
}

// short cuts s to at most n characters.
func short(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	runes := []rune(s)
	return string(runes[:n-1]) + "…"
}
