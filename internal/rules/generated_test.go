package rules

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/manifest"
)

var update = flag.Bool("update", false, "write generated files instead of comparing them")

// generators make every generated file of the repository. A generator takes
// nothing but the code: no clock, no network, no machine.
var generators = []struct {
	file     string
	generate func() ([]byte, error)
}{
	{"docs/config.md", func() ([]byte, error) { return config.Reference(), nil }},
	{"docs/roles.md", func() ([]byte, error) { return control.RolesPage(), nil }},
	{"cmd/parley/modules.txt", linkedModules},
	{"docs/schemas/owner.json", schemaOf(manifest.KindOwner)},
	{"docs/schemas/principal.json", schemaOf(manifest.KindPrincipal)},
	{"docs/schemas/agent.json", schemaOf(manifest.KindAgent)},
	{"docs/schemas/credential.json", schemaOf(manifest.KindCredential)},
	{"docs/schemas/limits.json", schemaOf(manifest.KindLimits)},
}

func schemaOf(k manifest.Kind) func() ([]byte, error) {
	return func() ([]byte, error) { return manifest.Schema(k), nil }
}

// TestGenerated compares generated files with what their generators make now;
// with -update it writes them.
func TestGenerated(t *testing.T) {
	for _, g := range generators {
		t.Run(g.file, func(t *testing.T) {
			want, err := g.generate()
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.Join(root, g.file)
			if *update {
				if err := os.WriteFile(name, want, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			got, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s is stale: run make generate", g.file)
			}
		})
	}
}

// linkedModules lists the modules in the product's binary with their versions,
// so that a dependency that creeps in shows up in a change.
func linkedModules() ([]byte, error) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", "./cmd/parley")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the product's modules: %w\n%s", err, problems.Bytes())
	}
	return sortedLines(out), nil
}
