package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// treeMax is how many calls of one root are given.
const treeMax = 1000

const callColumns = `seq, id, root, link, parent, depth, candidates, caller, caller_owner, caller_agent, environment,
	agent, agent_owner, instance, method, caller_binding, agent_binding, version, message_id, reference,
	trace_id, span_id, begun_at, deadline_at, context_id, task_id, task_state,
	end_seq, ended_at, outcome, reason, detail, status, bytes_in, bytes_out, first_byte, total, steps, asked`

func scanCall(row scanner) (*call.Record, error) {
	var (
		r                                                   call.Record
		id, root, parent                                    []byte
		candidates, steps                                   string
		seq, endSeq, status, in, out, firstByte, totalNanos sql.NullInt64
	)
	err := row.Scan(&seq, &id, &root, &r.Link.Kind, &parent, &r.Link.Depth, optional(&candidates),
		&r.Caller, &r.CallerOwner, optional(&r.CallerAgent), &r.Environment,
		&r.Agent, &r.AgentOwner, optional(&r.Instance), &r.Method,
		optional(&r.CallerBinding), optional(&r.AgentBinding), optional(&r.Version), optional(&r.MessageID), optional(&r.Reference),
		optional(&r.TraceID), optional(&r.SpanID), timeColumn{&r.Begun}, timeColumn{&r.Deadline},
		optional(&r.ContextID), optional(&r.TaskID), optional(&r.TaskState),
		&endSeq, timeColumn{&r.Ended}, optional(&r.Outcome), optional(&r.Reason), optional(&r.Detail), &status, &in, &out,
		&firstByte, &totalNanos, optional(&steps), jsonColumn{&r.Asked})
	if err != nil {
		return nil, err
	}
	copy(r.ID[:], id)
	r.Root = r.ID
	if root != nil {
		copy(r.Root[:], root)
	}
	copy(r.Link.Parent[:], parent)
	if err := r.Link.DecodeCandidates(candidates); err != nil {
		return nil, err
	}
	if r.Link.Kind == call.LinkParent && r.Link.Count == 0 {
		r.Link.Candidates, r.Link.Count = []parley.CallID{r.Link.Parent}, 1
	}
	r.Seq, r.EndSeq, r.Status = seq.Int64, endSeq.Int64, int(status.Int64)
	r.BytesIn, r.BytesOut = in.Int64, out.Int64
	r.FirstByte, r.Total = time.Duration(firstByte.Int64), time.Duration(totalNanos.Int64)
	r.Steps = decodeSteps(steps)
	return &r, nil
}

// fresh waits until what was handed over can be read. While the disk fails,
// reads go on with what was committed before.
func (db *DB) fresh(ctx context.Context) error {
	if db.w.idle() {
		return nil
	}
	if err := db.catchUp(ctx); err != nil && ctx.Err() != nil {
		return err
	}
	return nil
}

// Call gives one record, or a parley.NotFound error.
func (db *DB) Call(ctx context.Context, id parley.CallID) (*call.Record, error) {
	const op parley.Op = "store.call"
	subject := parley.Subject(id.String())
	if err := db.fresh(ctx); err != nil {
		return nil, db.fault(op, subject, err)
	}
	r, err := scanCall(db.read.QueryRowContext(ctx, `SELECT `+callColumns+` FROM calls WHERE id = ?`, id[:]))
	return r, db.fault(op, subject, err)
}

// Calls gives the records that match, newest first.
func (db *DB) Calls(ctx context.Context, f call.Filter) ([]*call.Record, error) {
	const op parley.Op = "store.calls"
	if err := db.fresh(ctx); err != nil {
		return nil, db.fault(op, "", err)
	}
	w, err := db.callsWhere(f)
	if err != nil {
		return nil, err
	}
	records, err := query(ctx, db, scanCall,
		`SELECT `+callColumns+` FROM calls`+w.String()+` ORDER BY `+db.sql.callOrder+` DESC LIMIT ?`, append(w.args, page(f.Limit))...)
	return records, db.fault(op, "", err)
}

func (db *DB) callsWhere(f call.Filter) (w where, err error) {
	if f.Caller != "" {
		w.and("caller = ?", string(f.Caller))
	}
	if f.Owner != "" {
		w.and("(caller_owner = ? OR agent_owner = ?)", string(f.Owner), string(f.Owner))
	}
	if f.Agent != "" {
		w.and("agent = ?", string(f.Agent))
	}
	if f.Method != "" {
		w.and("method = ?", f.Method)
	}
	if f.Task != "" {
		w.and("task_id = ?", f.Task)
	}
	if f.Reference != "" {
		w.and("reference = ?", f.Reference)
	}
	if !f.Root.IsZero() {
		w.and("(root = ? OR id = ?)", f.Root[:], f.Root[:])
	}
	if f.Outcome != "" {
		outcome, ok := parley.ParseOutcome(f.Outcome)
		switch {
		case !ok:
			return w, parley.E("store.calls", parley.Invalid, "outcome", "outcome "+f.Outcome+" is unknown", nil)
		case outcome == parley.OutcomeOpen:
			w.and("ended_at IS NULL")
		default:
			w.and("outcome = ?", string(outcome))
		}
	}
	if !f.Since.IsZero() {
		w.and("begun_at >= ?", f.Since.UnixMicro())
	}
	if !f.Until.IsZero() {
		w.and("begun_at < ?", f.Until.UnixMicro())
	}
	if !f.Before.IsZero() {
		w.and(db.sql.callOrder+" < (SELECT b."+db.sql.callOrder+" FROM calls b WHERE b.id = ?)", f.Before[:])
	}
	return w, nil
}

// Tree gives all calls of one root, oldest first, 1,000 at most.
func (db *DB) Tree(ctx context.Context, root parley.CallID) ([]*call.Record, error) {
	const op parley.Op = "store.tree"
	if err := db.fresh(ctx); err != nil {
		return nil, db.fault(op, parley.Subject(root.String()), err)
	}
	records, err := query(ctx, db, scanCall,
		`SELECT `+callColumns+` FROM calls WHERE root = ? OR id = ? ORDER BY `+db.sql.callOrder+` LIMIT ?`, root[:], root[:], treeMax)
	return records, db.fault(op, parley.Subject(root.String()), err)
}

// OpenCalls gives every open call that is this process's, oldest first: what a
// mesh that starts goes on watching. There is no limit to them but that of how many calls a mesh keeps
// open, and holds in memory, at once.
func (db *DB) OpenCalls(ctx context.Context) ([]*call.Record, error) {
	if err := db.fresh(ctx); err != nil {
		return nil, db.fault("store.open_calls", "", err)
	}
	if db.pg != nil {
		records, err := query(ctx, db, scanCall,
			`SELECT `+callColumns+` FROM calls WHERE replica = ? AND ended_at IS NULL ORDER BY num`, db.pg.id.Load())
		return records, db.fault("store.open_calls", "", err)
	}
	records, err := query(ctx, db, scanCall,
		`SELECT `+callColumns+` FROM calls INDEXED BY calls_open WHERE ended_at IS NULL ORDER BY seq`)
	return records, db.fault("store.open_calls", "", err)
}

// loadLive reads the open calls that an earlier process left.
func (db *DB) loadLive(ctx context.Context) error {
	records, err := db.OpenCalls(ctx)
	if err != nil {
		return err
	}
	for _, r := range records {
		db.live.begun(r, r.Seq)
	}
	return nil
}
