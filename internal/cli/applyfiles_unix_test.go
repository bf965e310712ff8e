//go:build unix

package cli

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestPipesAmongDocuments: a directory with a pipe in it is refused, and not read
// for ever.
func TestPipesAmongDocuments(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "owners.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	if files, err := documentFiles([]string{dir}); err == nil || !strings.Contains(err.Error(), "is no file") {
		t.Errorf("found %v, %v", files, err)
	}
}
