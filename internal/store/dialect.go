package store

import "strings"

// dialect is the statements of calls and events that differ between the
// databases. SQLite's one writer gives a row its place in the feed as it writes
// it, and the place is the row's key. PostgreSQL has a writer per replica: a row
// is found by the call's id, and the sequencer gives it its place later.
type dialect struct {
	insertCall      string // takes beginColumns and the place; PostgreSQL: the replica
	insertEndedCall string // takes beginColumns, endColumns and the places; PostgreSQL: the replica
	endCall         string // takes context, task, state, endColumns, the end's place (SQLite) and the row
	bindCall        string // takes context, task, state and the row
	callKey         string // takes the call's id, gives the key of its row
	insertEvent     string
	lastSeq         string
	callOrder       string // the column in whose order calls were begun
	now             string // the time of the database, in microseconds
}

// callStart and callOver are the columns of a begun call, and those that its end
// adds.
const (
	callStart = `id, root, link, parent, depth, candidates, caller, caller_owner, caller_agent, environment,
		agent, agent_owner, instance, method, caller_binding, agent_binding, version, message_id, reference,
		trace_id, span_id, begun_at, deadline_at, context_id, task_id, task_state`
	callOver = `ended_at, outcome, reason, detail, status, bytes_in, bytes_out, first_byte, total, steps`

	startMarks = `?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?`
	overMarks  = `?,?,?,?,?,?,?,?,?,?`

	setBinding = `UPDATE calls SET context_id = ?, task_id = ?, task_state = ?`
)

// setOver sets the columns of callOver.
var setOver = strings.ReplaceAll(callOver, ",", " = ?,") + " = ?"

var sqliteDialect = dialect{
	insertCall: `INSERT INTO calls (` + callStart + `, seq) VALUES (` + startMarks + `,?) ON CONFLICT (id) DO NOTHING`,
	insertEndedCall: `INSERT INTO calls (` + callStart + `, ` + callOver + `, seq, end_seq)
		VALUES (` + startMarks + `,` + overMarks + `,?,?) ON CONFLICT (id) DO NOTHING`,
	endCall:     setBinding + `, ` + setOver + `, end_seq = ? WHERE seq = ? AND ended_at IS NULL`,
	bindCall:    setBinding + ` WHERE seq = ? AND ended_at IS NULL`,
	callKey:     `SELECT seq FROM calls WHERE id = ?`,
	insertEvent: `INSERT INTO events (seq, ` + eventColumns + `) VALUES (?, ` + eventValues + `)`,
	lastSeq:     selectLastSeq,
	callOrder:   "seq",
	now:         `CAST(unixepoch('subsec') * 1000000 AS INTEGER)`,
}

var postgresDialect = dialect{
	insertCall: `INSERT INTO calls (` + callStart + `, replica) VALUES (` + startMarks + `,?) ON CONFLICT (id) DO NOTHING`,
	insertEndedCall: `INSERT INTO calls (` + callStart + `, ` + callOver + `, replica, end_num)
		VALUES (` + startMarks + `,` + overMarks + `,?,nextval('feed_arrival')) ON CONFLICT (id) DO NOTHING`,
	endCall:     setBinding + `, ` + setOver + `, end_num = nextval('feed_arrival') WHERE id = ? AND ended_at IS NULL`,
	bindCall:    setBinding + ` WHERE id = ? AND ended_at IS NULL`,
	callKey:     `SELECT num FROM calls WHERE id = ?`,
	insertEvent: `INSERT INTO events (` + eventColumns + `) VALUES (` + eventValues + `)`,
	lastSeq:     `SELECT last FROM feed`,
	callOrder:   "num",
	now:         pgNow,
}
