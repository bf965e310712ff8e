package store

import (
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// TestAStoreThatDoesNotOpenPromisesNothing: "goes on by itself" is for a mesh that
// runs. One that cannot start, and a copy, have to be begun anew.
func TestAStoreThatDoesNotOpenPromisesNothing(t *testing.T) {
	nowhere := Postgres{URL: "postgres://u@127.0.0.1:1/mesh", Conns: 1, ConnectTimeout: time.Second, StatementTimeout: time.Second, Lease: time.Second}
	_, opened := Open(t.Context(), Options{Dir: t.TempDir(), Postgres: nowhere})

	source, err := Open(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := source.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, copied := Copy(t.Context(), source.opt, nowhere, nil)
	for what, err := range map[string]error{"open": opened, "copy": copied} {
		if said := parley.PublicMessage(err); parley.KindOf(err) != parley.Unavailable || !strings.Contains(said, "cannot be reached") || strings.Contains(said, "goes on") {
			t.Errorf("%s: %v: %s", what, parley.KindOf(err), said)
		}
	}
}
