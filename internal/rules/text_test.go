package rules

import (
	"encoding/base64"
	"path"
	"regexp"
	"strings"
	"testing"
)

// mark joins the halves of a word that this file must not contain itself.
func mark(halves ...string) string { return strings.Join(halves, "") }

// exempt lists lines that may break a rule on text: the file, what the line
// contains, and why.
var exempt = []struct{ file, contains, why string }{}

func isExempt(name, line string) bool {
	for _, e := range exempt {
		if name == e.file && strings.Contains(line, e.contains) {
			return true
		}
	}
	return false
}

func refuse(t *testing.T, pattern *regexp.Regexp, why string) {
	t.Helper()
	eachTextLine(t, func(name string, number int, line string) {
		if found := pattern.FindString(line); found != "" && !isExempt(name, line) {
			t.Errorf("%s:%d: %q: %s", name, number, found, why)
		}
	})
}

// TestNoMachinePaths: a file that names a folder of the machine it was written
// on works on that machine only. Temporary folders come from the system.
func TestNoMachinePaths(t *testing.T) {
	refuse(t, regexp.MustCompile(mark(`(^|[^A-Za-z0-9_.$}-])/(wo`, `rk|ro`, `ot|ho`, `me|t`, `mp|Us`, `ers)/[A-Za-z0-9_.-]+`)),
		"names a machine's folder: use a relative path, an environment variable or a temporary folder")
}

// TestNoDownloadAddresses: where packages come from is a matter of the machine
// that installs them; lock files carry hashes, not addresses.
func TestNoDownloadAddresses(t *testing.T) {
	refuse(t, regexp.MustCompile(mark(`registry\.np`, `mjs|python`, `hosted\.org|py`, `pi\.org/simple|proxy\.gol`, `ang|"resol`, `ved"|--(extra-)?index-u`, `rl[ =]|GOPRO`, `XY=http`)),
		"names a registry or a download address: leave it to the machine's settings")
}

func TestLockFilesAreThere(t *testing.T) {
	locks := map[string]string{"package.json": "package-lock.json", "requirements.in": "requirements.txt", "go.mod": "go.sum"}
	present := map[string]bool{}
	for _, name := range repoFiles(t) {
		present[name] = true
	}
	for name := range present {
		if lock := locks[path.Base(name)]; lock != "" && !present[path.Join(path.Dir(name), lock)] {
			t.Errorf("%s has no %s beside it", name, lock)
		}
	}
}

// TestNothingIsLeftToDo: what is missing stands in docs/limits.md or the
// roadmap, where a reader looks for it.
func TestNothingIsLeftToDo(t *testing.T) {
	refuse(t, regexp.MustCompile(mark(`\b(TO`, `DO|FIX`, `ME|XX`, `X)\b`)), "do it, or list it in docs/limits.md")
}

// unwanted are words that say how a text came to be instead of what it is
// about. They are encoded so that the list does not find itself.
var unwanted = []string{
	"XGJzZXNzaW9ucz9cYg==", "XGJoZWxwZXIgYWdlbnRzP1xi", "XGJzdWItP2FnZW50cz9cYg==", "XGJ3b3JrdHJlZXM/XGI=",
	"XGJjbGF1ZGVcYg==", "XGJhbnRocm9waWNcYg==", "XGJjaGF0Z3B0XGI=", "XGJjb3BpbG90XGI=",
	"XGJsYW5ndWFnZSBtb2RlbHM/XGI=", "XGIoYWl8bGxtKS0oZ2VuZXJhdGVkfHdyaXR0ZW4pXGI=", "XGJwYXJ0IFswLTldXGI=", "XGJpc3N1ZSAjP1swLTldK1xi",
}

func TestWords(t *testing.T) {
	var patterns []string
	for _, encoded := range unwanted {
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			t.Fatal(err)
		}
		patterns = append(patterns, string(raw))
	}
	refuse(t, regexp.MustCompile("(?i)"+strings.Join(patterns, "|")), "says how the text came to be: speak of the project")
}

func TestLicence(t *testing.T) {
	text := string(read(t, "LICENSE"))
	for _, want := range []string{"Apache License", "Version 2.0, January 2004", "END OF TERMS AND CONDITIONS", "Grant of Patent License"} {
		if !strings.Contains(text, want) {
			t.Errorf("LICENSE lacks %q", want)
		}
	}
}
