package probe

import (
	"strings"
	"unicode"
)

// Limits on what is kept of an agent's own words, in bytes.
const (
	maxTitle       = 200
	maxDescription = 2000
	maxVersion     = 100
	maxLabel       = 200 // of an interface the mesh does not speak, and of a path into the card
	// maxForeignText is how much of them goes into a message.
	maxForeignText = 60
)

// plain makes foreign text fit for a message: printable ASCII, and not much.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
	return s[:min(len(s), maxForeignText)]
}

// words makes foreign text fit to be shown: no control or formatting
// characters, which could rewrite a terminal's line, and at most so many bytes.
func words(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
