package store_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/parley-mesh/parley/internal/store"
	"github.com/parley-mesh/parley/internal/storetest"
	"github.com/parley-mesh/parley/internal/storetest/pgtest"
	"github.com/parley-mesh/parley/internal/stream"
)

// open opens a store that is closed with its test.
func open(t *testing.T, opt store.Options) *store.DB {
	t.Helper()
	if opt.Dir == "" {
		opt.Dir = t.TempDir()
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	db, err := store.Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestSQLite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store { return open(t, store.Options{}) })
}

func TestPostgres(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store {
		return open(t, store.Options{Postgres: store.Postgres{URL: pgtest.Database(t)}})
	})
}

func TestJournalLimits(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		storetest.RunJournalLimits(t, func(t *testing.T, l stream.Limits) storetest.Store { return open(t, store.Options{Journal: l}) })
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		storetest.RunJournalLimits(t, func(t *testing.T, l stream.Limits) storetest.Store {
			return open(t, store.Options{Journal: l, Postgres: store.Postgres{URL: pgtest.Database(t)}})
		})
	})
}

// Two replicas that need the first key at the same moment sign with one.
func TestMeshKeyRaceOfReplicas(t *testing.T) {
	t.Setenv("PARLEY_TEST_MASTER", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	opt := store.Options{MasterKey: "env:PARLEY_TEST_MASTER", Postgres: store.Postgres{URL: pgtest.Database(t)}}
	storetest.RaceForKeys(t, open(t, opt), open(t, opt))
}
