package store

import (
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// Reads that callers wait for use their index and do not walk the table.
func TestQueryPlans(t *testing.T) {
	db, err := Open(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	calls := func(f call.Filter) string {
		w, err := db.callsWhere(f)
		if err != nil {
			t.Fatal(err)
		}
		return `SELECT seq FROM calls` + w.String() + ` ORDER BY seq DESC LIMIT 10`
	}
	for _, test := range []struct{ name, sql, want string }{
		{"task", calls(call.Filter{Task: "t"}), "calls_task"},
		{"reference", calls(call.Filter{Reference: "r"}), "calls_reference"},
		{"root", calls(call.Filter{Root: parley.NewCallID()}), "calls_root"},
		{"open", calls(call.Filter{Outcome: "open"}), "calls_open"},
		{"page", calls(call.Filter{Before: parley.NewCallID(), Since: time.Now()}), "PRIMARY KEY (rowid<?)"},
		{"call", `SELECT seq FROM calls WHERE id = ?`, "calls_id"},
		{"ended", `SELECT seq FROM calls WHERE end_seq > ? ORDER BY end_seq LIMIT 10`, "calls_end"},
		{"tree", `SELECT seq FROM calls WHERE root = ? OR id = ? ORDER BY seq LIMIT 10`, "calls_root"},
		{"task key", `SELECT num FROM tasks WHERE agent = ? AND instance = ? AND id = ?`, "tasks_key"},
		{"task list", `SELECT num FROM tasks WHERE principal = ? ORDER BY status_at DESC, id LIMIT 10`, "tasks_list"},
		{"subject", `SELECT max(subject_seq) FROM events WHERE subject = ?`, "events_subject"},
	} {
		plan := explain(t, db, test.sql)
		if !strings.Contains(plan, test.want) {
			t.Errorf("%s: the plan does not use %s:\n%s", test.name, test.want, plan)
		}
	}
}

// explain is how the database would run a statement.
func explain(t *testing.T, db *DB, statement string) string {
	t.Helper()
	rows, err := db.read.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+statement, make([]any, strings.Count(statement, "?"))...)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var a, b, c int
		var detail string
		if err := rows.Scan(&a, &b, &c, &detail); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(detail + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}
