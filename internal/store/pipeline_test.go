package store

import (
	"slices"
	"testing"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/storetest/pgtest"
)

// Two replicas that want the same rows ask for them in the same order, whatever
// the order of their jobs: else each would hold what the other waits for.
func TestClaimsOfABatchHaveOneOrder(t *testing.T) {
	db, err := Open(t.Context(), Options{Dir: t.TempDir(), Postgres: Postgres{URL: pgtest.Database(t)}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	order := func(contexts ...string) (claims []string) {
		q := &pipeline{conn: &pgConn{texts: map[string]string{}}}
		for _, id := range contexts {
			r := newCall()
			k := &settlement{db: db, record: *endedCall(r, parley.OutcomeOK), context: db.contextHash(contextKey{r.Agent, r.Instance, id})}
			k.Settlement = call.Settlement{Record: &k.record, Context: id}
			if !k.pipe(q) || q.err != nil {
				t.Fatalf("not piped: %v", q.err)
			}
		}
		q.batch()
		for _, s := range q.statements {
			if s.table != afterClaims {
				claims = append(claims, s.key)
			}
		}
		return claims
	}
	one, two := order("a", "b", "c", "d"), order("d", "b", "a", "c")
	if len(one) != 4 || !slices.Equal(one, two) {
		t.Errorf("one replica claims %x, the other %x", one, two)
	}
}
