package rules

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const dependencies = "docs/decisions/0001-dependencies.md"

// sortedLines sorts lines and drops empty and repeated ones.
func sortedLines(text []byte) []byte {
	lines := strings.Fields(strings.ReplaceAll(string(bytes.TrimSpace(text)), " ", "\x00"))
	slices.Sort(lines)
	joined := strings.Join(slices.Compact(lines), "\n") + "\n"
	return []byte(strings.ReplaceAll(joined, "\x00", " "))
}

// requirement matches a line of go.mod that requires a module.
var requirement = regexp.MustCompile(`(?m)^(?:require )?\s*([a-z0-9.-]+\.[a-z]+/\S+|[a-z0-9-]+\.[a-z]+\.[a-z]+/\S+) v\S+`)

// row matches a line of the table of dependencies: module, use, licence, state.
var row = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\| ([^|]+) \\| ([^|]+) \\|$")

// TestDependenciesAreExplained: each module whose packages we import has a line
// that says why, under which licence and how alive it is, and each line stands
// for a module we require.
func TestDependenciesAreExplained(t *testing.T) {
	required := map[string]bool{}
	for _, match := range requirement.FindAllStringSubmatch(string(read(t, "go.mod")), -1) {
		required[match[1]] = true
	}
	if len(required) == 0 {
		t.Fatal("no requirement was read from go.mod")
	}
	explained := map[string]bool{}
	for _, match := range row.FindAllStringSubmatch(string(read(t, dependencies)), -1) {
		explained[match[1]] = true
		if !required[match[1]] {
			t.Errorf("%s explains %s, which go.mod does not require: take the line out", dependencies, match[1])
		}
	}
	for _, file := range goFiles(t) {
		for _, imported := range imports(file) {
			first, _, _ := strings.Cut(imported, "/")
			if !strings.Contains(first, ".") || strings.HasPrefix(imported, module) {
				continue
			}
			if m := moduleOf(imported, required); m == "" {
				t.Errorf("%s imports %s, which no requirement in go.mod covers", file.name, imported)
			} else if !explained[m] {
				t.Errorf("%s imports %s: add a line for %s to %s", file.name, imported, m, dependencies)
				explained[m] = true // once is enough
			}
		}
	}
}

// moduleOf is the longest required module that an import path is part of.
func moduleOf(imported string, required map[string]bool) string {
	for path := imported; path != ""; {
		if required[path] {
			return path
		}
		cut := strings.LastIndexByte(path, '/')
		if cut < 0 {
			return ""
		}
		path = path[:cut]
	}
	return ""
}
