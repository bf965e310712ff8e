package store_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/store"
)

func check(t *testing.T, dir string) store.Checkup {
	t.Helper()
	c, err := store.Check(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCheckOfAStoreThatIsWell(t *testing.T) {
	if c := check(t, filepath.Join(t.TempDir(), "none")); c.Size != 0 || c.Problem != "" || c.Holder != "" {
		t.Errorf("no directory: %+v", c)
	}
	dir := closed(t)
	before := listing(t, dir)
	if c := check(t, dir); c.Problem != "" || c.Size == 0 || c.Schema == 0 || c.Holder != "" {
		t.Errorf("a whole one: %+v", c)
	}
	if after := listing(t, dir); after != before {
		t.Errorf("the look changed the directory:\n%swas\n%s", after, before)
	}
	db := open(t, store.Options{Dir: dir})
	if c := check(t, dir); c.Holder != fmt.Sprintf("process %d", os.Getpid()) || c.Problem != "" {
		t.Errorf("one that is served: %+v", c)
	}
	if _, err := db.Owners(t.Context(), "", 1); err != nil {
		t.Errorf("the store that was looked at: %v", err)
	}
}

func TestCheckFindsDamage(t *testing.T) {
	for what, damage := range map[string]func([]byte){
		"the header": func(b []byte) { copy(b, "this was a database") },
		"the schema": func(b []byte) { clear(b[100:2048]) },
		"its pages": func(b []byte) {
			for i := 4096; i < len(b); i += 512 {
				copy(b[i:], strings.Repeat("?", 256))
			}
		},
	} {
		dir := closed(t)
		file := filepath.Join(dir, "parley.db")
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		damage(raw)
		if err := os.WriteFile(file, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if c := check(t, dir); !strings.Contains(c.Problem, "damaged") || !strings.Contains(c.Advice, "move it and its -wal and -shm files away") {
			t.Errorf("%s: %+v", what, c)
		}
		if now, err := os.ReadFile(file); err != nil || string(now) != string(raw) {
			t.Errorf("%s: the file was changed (%v)", what, err)
		}
	}
}

func TestCheckOfANewerSchema(t *testing.T) {
	dir := closed(t)
	raw := rawDB(t, dir)
	if _, err := raw.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)`); err != nil {
		t.Fatal(err)
	}
	// Read from the log, as after a crash.
	if c := check(t, dir); c.Schema != 9999 || !strings.Contains(c.Advice, "newer program") {
		t.Errorf("%+v", c)
	}
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}
	if c := check(t, dir); c.Schema != 9999 || !strings.Contains(c.Problem, "9999") {
		t.Errorf("%+v", c)
	}
}

func TestCheckEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := store.Check(ctx, closed(t)); err == nil {
		t.Error("a look that was called off found something")
	}
}

// listing is what is in a directory, with sizes and times.
func listing(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, e.Name(), info.Size(), info.ModTime())
	}
	return b.String()
}
