package store

import (
	"context"
	"sync/atomic"

	"github.com/parley-mesh/parley/internal/parley"
)

// filterBits is the size of a contextFilter: 4 MiB, which keeps false alarms
// under 1 % up to three million contexts. A full filter is slow, never wrong.
const filterBits = 1 << 25

// filterProbes is how many bits stand for one context.
const filterProbes = 4

// contextFilter knows which contexts the table certainly does not hold (a Bloom
// filter). Nearly every plain exchange shows a context that nobody has used
// before, and asking the database whose it is costs more than all else that is
// read for a call. It only grows; what retention deletes stays in it until the
// next start. The zero value knows nothing:
// any context may be there. It is for databases that others write as well.
type contextFilter struct{ words []atomic.Uint64 }

func newContextFilter() contextFilter {
	return contextFilter{make([]atomic.Uint64, filterBits/64)}
}

// add notes a context before its row can be written.
func (f contextFilter) add(key int64) {
	if f.words == nil {
		return
	}
	for _, bit := range filterPlaces(key) {
		if word := &f.words[bit/64]; word.Load()&(1<<(bit%64)) == 0 {
			word.Or(1 << (bit % 64))
		}
	}
}

// mayHold is false where the table certainly has no row of that key.
func (f contextFilter) mayHold(key int64) bool {
	if f.words == nil {
		return true
	}
	for _, bit := range filterPlaces(key) {
		if f.words[bit/64].Load()&(1<<(bit%64)) == 0 {
			return false
		}
	}
	return true
}

// filterPlaces are the bits of a key. Keys are hashes, so that their halves are
// independent and double hashing spreads them (Kirsch and Mitzenmacher, 2006).
func filterPlaces(key int64) (bits [filterProbes]uint64) {
	low, high := uint64(key)&0xffffffff, uint64(key)>>32|1
	for i := range bits {
		bits[i] = (low + uint64(i)*high) % filterBits
	}
	return bits
}

// loadFilter notes every context of the table.
func (db *DB) loadFilter(ctx context.Context) error {
	rows, err := db.read.QueryContext(ctx, `SELECT key FROM contexts`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var key int64
		if err := rows.Scan(&key); err != nil {
			return err
		}
		db.contexts.add(key)
	}
	return rows.Err()
}

// noContext says that nobody has used a context.
func noContext(id string) error {
	return parley.E("store.context", parley.NotFound, parley.Subject(id), "not found", nil)
}
