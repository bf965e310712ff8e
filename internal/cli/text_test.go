package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

func TestCleanTextShowsWhatATerminalWouldObey(t *testing.T) {
	for text, want := range map[string]string{
		"plain, ünïcode 漢字 👍🏽":  "plain, ünïcode 漢字 👍🏽",
		"two\nlines\tand a tab": "two\nlines\tand a tab",
		"dos\r\nlines":          "dos\nlines",
		"over\rwritten":         `over\x0dwritten`,
		"red\x1b[31m":           `red\x1b[31m`,
		"csi\u009b2J":           `csi\x9b2J`,
		"bell\a, backspace\b":   `bell\x07, backspace\x08`,
		"\u202etxt.exe":         `\u{202e}txt.exe`,
		"tag\U000e0041":         `tag\u{e0041}`,
		"not \xff UTF-8":        "not \uFFFD UTF-8",
		"line\u2028separator":   `line\u{2028}separator`,
		"family 👨‍👩‍👧 keeps its joiners": "family 👨‍👩‍👧 keeps its joiners",
	} {
		if got := cleanText(text); got != want {
			t.Errorf("cleanText(%q) = %q, want %q", text, got, want)
		}
	}
	if got := cleanLine("  a\nb\tc\r\nd\x00 "); got != `a b c d\x00` {
		t.Errorf("cleanLine gives %q", got)
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\x1b[2Jb\u009b\u202e\xff\n")
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range cleanText(s) {
			if r != '\n' && r != '\t' && obeyed(r) {
				t.Fatalf("cleanText(%q) lets %U through", s, r)
			}
		}
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back, same string
		cleaned := cleanJSON(raw)
		if strings.ContainsFunc(string(cleaned), func(r rune) bool { return unicode.IsControl(r) || obeyed(r) }) {
			t.Fatalf("cleanJSON(%q) lets something through: %q", raw, cleaned)
		}
		if err := json.Unmarshal(cleaned, &back); err != nil {
			t.Fatalf("cleanJSON(%q) is no JSON: %v", raw, err)
		}
		if err := json.Unmarshal(raw, &same); err != nil || back != same {
			t.Fatalf("cleanJSON(%q) changes the value to %q", raw, back)
		}
	})
}

func TestShort(t *testing.T) {
	for _, tc := range []struct {
		text string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"äöüß", 4, "äöüß"}, {"äöüßx", 4, "äöü…"}} {
		if got := short(tc.text, tc.n); got != tc.want {
			t.Errorf("short(%q, %d) = %q, want %q", tc.text, tc.n, got, tc.want)
		}
	}
}

func TestShellWord(t *testing.T) {
	for text, want := range map[string]string{
		"01970000-ab": "01970000-ab", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(rm -r /)": "'$(rm -r /)'", "a\nb": "'a b'",
	} {
		if got := shellWord(text); got != want {
			t.Errorf("shellWord(%q) = %s, want %s", text, got, want)
		}
	}
}
