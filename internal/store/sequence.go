package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// placesAtOnce is how many places one transaction gives.
const placesAtOnce = 1000

// heldFor is how long others wait for the place of a call's beginning.
const heldFor = time.Second

// lockFeed lets one process give places at a time, whoever believes to hold the
// lease, and only one whose lease nobody has taken over.
const lockFeed = `SELECT last FROM feed WHERE EXISTS (
	SELECT 1 FROM leases WHERE name = '` + LeaseFeed + `' AND holder = $1 AND epoch = $2) FOR UPDATE`

// giveSomePlaces gives places, in order of arrival, to what is committed and has
// none. It sees a later moment than lockFeed: all that whoever had the lock
// before has done. Rows that somebody is changing just now wait for the next
// turn. Where that is the beginning of a call which ends just now, what came
// after it waits too, so that the feed tells them in order; but not for long
// (heldFor): a transaction that takes its time holds nobody up.
const giveSomePlaces = `WITH
feed_row AS (SELECT last FROM feed WHERE EXISTS (
	SELECT 1 FROM leases WHERE name = '` + LeaseFeed + `' AND holder = $1 AND epoch = $2)),
begun AS (SELECT num FROM calls WHERE seq IS NULL ORDER BY num LIMIT $3 FOR UPDATE SKIP LOCKED),
ended AS (SELECT num, end_num FROM calls WHERE end_num IS NOT NULL AND end_seq IS NULL ORDER BY end_num LIMIT $3 FOR UPDATE SKIP LOCKED),
other AS (SELECT num FROM events WHERE seq IS NULL ORDER BY num LIMIT $3 FOR UPDATE SKIP LOCKED),
held AS (SELECT num FROM calls WHERE $4 AND seq IS NULL AND num NOT IN (SELECT num FROM begun) ORDER BY num LIMIT 1),
arrived AS (
	SELECT 1 AS kind, num AS row, num AS at FROM begun
	UNION ALL SELECT 2, num, end_num FROM ended
	UNION ALL SELECT 3, num, num FROM other),
placed AS (
	SELECT a.kind, a.row, f.last + row_number() OVER (ORDER BY a.at) AS place
	FROM (SELECT kind, row, at FROM arrived WHERE NOT EXISTS (SELECT 1 FROM held WHERE held.num < at)
		ORDER BY at LIMIT $3) a CROSS JOIN feed_row f),
of_calls AS (
	SELECT row, max(place) FILTER (WHERE kind = 1) AS begun, max(place) FILTER (WHERE kind = 2) AS ended
	FROM placed WHERE kind < 3 GROUP BY row),
calls_done AS (
	UPDATE calls SET seq = coalesce(calls.seq, c.begun), end_seq = coalesce(calls.end_seq, c.ended)
	FROM of_calls c WHERE calls.num = c.row),
events_done AS (UPDATE events SET seq = p.place FROM placed p WHERE p.kind = 3 AND events.num = p.row)
UPDATE feed SET last = last + (SELECT count(*) FROM placed) WHERE EXISTS (SELECT 1 FROM placed)
RETURNING (SELECT count(*) FROM placed)`

// selectUnplaced gives the arrival of the newest thing that has no place yet, 0
// where all have one; selectUnplacedUntil the same of those up to an arrival.
const (
	selectUnplaced = `SELECT greatest(
		coalesce((SELECT max(num) FROM calls WHERE seq IS NULL), 0),
		coalesce((SELECT max(end_num) FROM calls WHERE end_num IS NOT NULL AND end_seq IS NULL), 0),
		coalesce((SELECT max(num) FROM events WHERE seq IS NULL), 0))`
	selectUnplacedUntil = `SELECT greatest(
		coalesce((SELECT min(num) FROM calls WHERE seq IS NULL AND num <= ?1), 0),
		coalesce((SELECT min(end_num) FROM calls WHERE end_num IS NOT NULL AND end_seq IS NULL AND end_num <= ?1), 0),
		coalesce((SELECT min(num) FROM events WHERE seq IS NULL AND num <= ?1), 0))`
)

// number gives places where this process holds the lease for it, until there is
// nothing without one, and tells whether it gave any.
func (p *postgres) number(ctx context.Context) (gave bool, err error) {
	for {
		l, held := p.lease(LeaseFeed)
		if !held {
			return gave, nil
		}
		patient := p.pulse.oldest == 0 || time.Since(p.pulse.oldestAt) < heldFor
		n, oldest, err := givePlaces(ctx, p.pulse.conn, p.id.Load(), l.epoch, patient)
		if err != nil {
			return gave, err
		}
		if oldest != p.pulse.oldest {
			p.pulse.oldest, p.pulse.oldestAt = oldest, time.Now()
		}
		gave = gave || n > 0
		if n < placesAtOnce {
			return gave, nil
		}
	}
}

// givePlaces is one transaction, sent as one message: a process that is paused
// meanwhile holds no lock. It also gives the arrival of the oldest beginning that
// has no place afterwards, 0 for none. Whoever is patient lets what came later wait
// for that.
func givePlaces(ctx context.Context, conn *pgx.Conn, holder, epoch int64, patient bool) (n, oldest int64, err error) {
	var b pgx.Batch
	b.Queue(lockFeed, holder, epoch)
	b.Queue(giveSomePlaces, holder, epoch, placesAtOnce, patient)
	b.Queue(`SELECT coalesce(min(num), 0) FROM calls WHERE seq IS NULL`)
	results := conn.SendBatch(ctx, &b)
	defer results.Close()
	if _, err := results.Exec(); err != nil {
		return 0, 0, err
	}
	if err := results.QueryRow().Scan(&n); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, 0, err
	}
	if err := results.QueryRow().Scan(&oldest); err != nil {
		return 0, 0, err
	}
	return n, oldest, results.Close()
}
