package store

import (
	"database/sql/driver"
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// calmConn is a connection whose statements all work and change nothing.
type calmConn struct{}

func (calmConn) run(string, ...driver.Value) (int64, error)                  { return 0, nil }
func (calmConn) first([]driver.Value, string, ...driver.Value) (bool, error) { return false, nil }
func (calmConn) begin() error                                                { return nil }
func (calmConn) commit() error                                               { return nil }
func (calmConn) rollback() error                                             { return nil }
func (calmConn) spoiled() bool                                               { return false }
func (calmConn) close() error                                                { return nil }

// TestCollisionAfterARefusal: a batch in which one job was refused and a later
// one met another replica's transaction is tried again with each other job once.
func TestCollisionAfterARefusal(t *testing.T) {
	refusal := errors.New("refused")
	ran := map[string]int{}
	collisions := 1
	named := func(name string, fail func() error) *job {
		return &job{work: statements(func(*tx) error {
			ran[name]++
			return fail()
		})}
	}
	fine := func() error { return nil }
	a, b, c := named("a", fine), named("b", func() error { return refusal }), named("c", fine)
	d := named("d", func() error {
		if collisions--; collisions >= 0 {
			return &pgconn.PgError{Code: pgDeadlock}
		}
		return nil
	})
	e := named("e", fine)
	left, failed := []*job{a, b, c, d, e}, []*job(nil)
	w := &writer{db: &DB{}, conn: calmConn{}}
	if _, err := w.attempt(&left, &failed); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(left, []*job{a, c, d, e}) {
		t.Errorf("%d jobs are committed, want a, c, d and e, each once", len(left))
	}
	if !slices.Equal(failed, []*job{b}) {
		t.Errorf("%d jobs are refused, want b alone, once", len(failed))
	}
	for name, want := range map[string]int{"a": 2, "b": 1, "c": 2, "d": 2, "e": 1} {
		if ran[name] != want {
			t.Errorf("%s ran %d times, want %d", name, ran[name], want)
		}
	}
}
