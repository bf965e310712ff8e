package rules

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/parley-mesh/parley"

// root is the repository, from this package's folder, where tests run.
const root = "../.."

// files lists the repository's files by their slash-separated path from root:
// tracked ones and new ones that git would not ignore.
var files = sync.OnceValues(func() ([]string, error) {
	out, err := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return nil, err
	}
	var existing []string
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		if info, err := os.Lstat(filepath.Join(root, name)); err == nil && info.Mode().IsRegular() {
			existing = append(existing, name)
		}
	}
	slices.Sort(existing)
	return slices.Compact(existing), nil
})

func repoFiles(t *testing.T) []string {
	t.Helper()
	list, err := files()
	if err != nil {
		t.Fatalf("list the repository's files with git: %v", err)
	}
	if len(list) < 50 {
		t.Fatalf("git lists only %d files: the rules would prove nothing", len(list))
	}
	return list
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// eachTextLine visits the lines of every file that is text.
func eachTextLine(t *testing.T, visit func(name string, number int, line string)) {
	t.Helper()
	for _, name := range repoFiles(t) {
		raw := read(t, name)
		if bytes.IndexByte(raw, 0) >= 0 {
			continue // not text
		}
		number := 0
		for line := range strings.Lines(string(raw)) {
			number++
			visit(name, number, line)
		}
	}
}

// goFile is a parsed Go file of the module.
type goFile struct {
	name string // path from root
	pkg  string // import path without the module, "cmd/parley"
	test bool
	ast  *ast.File
}

// goFiles parses all Go files of the product's module once.
func goFiles(t *testing.T) []goFile {
	t.Helper()
	var parsed []goFile
	fset := token.NewFileSet()
	for _, name := range repoFiles(t) {
		if !strings.HasSuffix(name, ".go") || strings.HasPrefix(name, "tools/") || strings.Contains(name, "testdata/") {
			continue
		}
		file, err := parser.ParseFile(fset, filepath.Join(root, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, goFile{name, path.Dir(name), strings.HasSuffix(name, "_test.go"), file})
	}
	return parsed
}

func imports(file goFile) []string {
	var paths []string
	for _, spec := range file.ast.Imports {
		paths = append(paths, strings.Trim(spec.Path.Value, `"`))
	}
	return paths
}
