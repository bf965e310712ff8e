package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/storetest/pgtest"
)

// TestPostgresBackupPage runs the commands that docs/backup.md gives for
// PostgreSQL: a mesh is dumped while it runs, restored into an empty database and
// served from there; a database that holds something is not touched.
func TestPostgresBackupPage(t *testing.T) {
	for _, program := range []string{"pg_dump", "pg_restore"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed (Debian: apt-get install postgresql-client)", program)
		}
	}
	page, err := os.ReadFile("../../docs/backup.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## PostgreSQL\n")
	commands := block.FindAllStringSubmatch(section, -1)
	if !found || len(commands) != 2 {
		t.Fatalf("the page has %d blocks of commands for PostgreSQL, want one to save and one to restore", len(commands))
	}
	const served = "parley serve --data restored"
	restore, line, found := strings.Cut(commands[1][1], `PARLEY_STORE="$RESTORED_STORE" `+served)
	if !found || strings.TrimSpace(line) != "" {
		t.Fatalf("the commands to restore do not end with %q", served)
	}
	serve := func(store, data string) string {
		return fmt.Sprintf(`PARLEY_STORE="$%s" parley serve --data %s --listen %s --grpc-listen %s --ops-listen %s --ready-file %[2]s.json &
for i in $(seq 300); do [ -s %[2]s.json ] && break; sleep 0.1; done
`, store, data, freeAddress(t), freeAddress(t), freeAddress(t))
	}
	script := "set -eu\ntrap 'kill $(jobs -p)' EXIT\n" + serve("PARLEY_STORE", "mesh") + `
parley --data mesh owner create kept
parley --data mesh principal create alice --owner kept
` + commands[0][1] + `
parley --data mesh owner create later
kill %1; wait %1
if pg_restore --exit-on-error --single-transaction --no-owner --dbname="$PARLEY_STORE" mesh.dump; then exit 1; fi
` + restore + serve("RESTORED_STORE", "restored") + `
parley --data restored owner list
parley --data restored principal show alice
parley --data restored doctor
`
	dir := t.TempDir()
	cmd := exec.Command("timeout", "--kill-after=5", fmt.Sprint(pageTime.Seconds()), "bash", "-c", script)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir,
		"PARLEY_STORE=" + pgtest.Database(t), "RESTORED_STORE=" + pgtest.Database(t),
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("the commands of the page end with %v:\n%s", err, out)
	}
	if text := string(out); strings.Count(text, "kept") < 2 || !strings.Contains(text, "alice") {
		t.Errorf("the restored mesh does not have what was saved:\n%s", text)
	}
}
