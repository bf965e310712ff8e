package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// placesAtOnce is how many places one transaction gives.
const placesAtOnce = 1000

// lockFeed lets one process give places at a time, whoever believes to hold the
// lease, and only one whose lease nobody has taken over.
const lockFeed = `SELECT last FROM feed WHERE EXISTS (
	SELECT 1 FROM leases WHERE name = '` + LeaseFeed + `' AND holder = $1 AND epoch = $2) FOR UPDATE`

// giveSomePlaces gives places, in order of arrival, to what is committed and has
// none. It sees a later moment than lockFeed: all that whoever had the lock
// before has done. Rows that somebody is changing just now wait for the next
// turn: a transaction that takes long holds nobody up.
const giveSomePlaces = `WITH
feed_row AS (SELECT last FROM feed WHERE EXISTS (
	SELECT 1 FROM leases WHERE name = '` + LeaseFeed + `' AND holder = $1 AND epoch = $2)),
begun AS (SELECT num FROM calls WHERE seq IS NULL ORDER BY num LIMIT $3 FOR UPDATE SKIP LOCKED),
ended AS (SELECT num, end_num FROM calls WHERE end_num IS NOT NULL AND end_seq IS NULL ORDER BY end_num LIMIT $3 FOR UPDATE SKIP LOCKED),
other AS (SELECT num FROM events WHERE seq IS NULL ORDER BY num LIMIT $3 FOR UPDATE SKIP LOCKED),
arrived AS (
	SELECT 1 AS kind, num AS row, num AS at FROM begun
	UNION ALL SELECT 2, num, end_num FROM ended
	UNION ALL SELECT 3, num, num FROM other),
placed AS (
	SELECT a.kind, a.row, f.last + row_number() OVER (ORDER BY a.at) AS place
	FROM (SELECT kind, row, at FROM arrived ORDER BY at LIMIT $3) a CROSS JOIN feed_row f),
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
		n, err := givePlaces(ctx, p.pulse.conn, p.id.Load(), l.epoch)
		if err != nil {
			return gave, err
		}
		gave = gave || n > 0
		if n < placesAtOnce {
			return gave, nil
		}
	}
}

// givePlaces is one transaction, sent as one message: a process that is paused
// meanwhile holds no lock.
func givePlaces(ctx context.Context, conn *pgx.Conn, holder, epoch int64) (n int64, err error) {
	var b pgx.Batch
	b.Queue(lockFeed, holder, epoch)
	b.Queue(giveSomePlaces, holder, epoch, placesAtOnce)
	results := conn.SendBatch(ctx, &b)
	defer results.Close()
	if _, err := results.Exec(); err != nil {
		return 0, err
	}
	err = results.QueryRow().Scan(&n)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	if err == nil {
		err = results.Close()
	}
	return n, err
}
