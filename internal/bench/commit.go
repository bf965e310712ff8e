package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	_ "modernc.org/sqlite" // the driver of the store's own default
)

// The commit probe: so many one-row transactions, the first of them uncounted.
const (
	probeCommits  = 120
	probeWarmup   = 20
	probeRowBytes = 1000
)

// commitTime returns the median time of a durable one-row commit on the file
// system that holds dir: SQLite with a write-ahead log and synchronous=FULL,
// alone and one after the other. It is the unit in which the latency goal is
// set, because a call of Parley waits for one such commit at least.
func commitTime(ctx context.Context, dir string) (_ time.Duration, err error) {
	own, err := os.MkdirTemp(dir, "commit")
	if err != nil {
		return 0, fmt.Errorf("commit probe: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(own)) }()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(own, "probe.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return 0, fmt.Errorf("commit probe: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, "CREATE TABLE calls (id INTEGER PRIMARY KEY, body BLOB NOT NULL)"); err != nil {
		return 0, fmt.Errorf("commit probe: %w", err)
	}
	insert, err := db.PrepareContext(ctx, "INSERT INTO calls (body) VALUES (?)")
	if err != nil {
		return 0, fmt.Errorf("commit probe: %w", err)
	}
	defer insert.Close() // the database is closed right after
	row := make([]byte, probeRowBytes)
	times := make([]time.Duration, 0, probeCommits)
	for i := range probeWarmup + probeCommits {
		begin := time.Now()
		if _, err := insert.ExecContext(ctx, row); err != nil {
			return 0, fmt.Errorf("commit probe: %w", err)
		}
		if i >= probeWarmup {
			times = append(times, time.Since(begin))
		}
	}
	slices.Sort(times)
	return quantile(times, 0.5), nil
}
