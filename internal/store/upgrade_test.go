//go:build unix

package store

import (
	"database/sql"
	"io/fs"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/storetest/pgtest"
)

// beforeJournals is the schema before tasks had journals and subscribers. Dumps of
// SQLite's older schemas are in testdata/released.
const beforeJournals = 6

// A database of PostgreSQL that was made before, with an agent and a task in it,
// is brought up to date where it is.
func TestPostgresOfAnOlderSchemaOpens(t *testing.T) {
	url := pgtest.Database(t)
	conn := connect(t, url)
	raw := sql.OpenDB(stdlib.GetConnector(*conn.Config()))
	defer raw.Close()
	dir, err := fs.Sub(migrations, "migrations/postgres")
	must(t, err)
	provider, err := goose.NewProvider(goose.DialectPostgres, raw, dir)
	must(t, err)
	_, err = provider.UpTo(t.Context(), beforeJournals)
	must(t, err)
	for _, row := range []string{
		`INSERT INTO owners (name, description, created_at, version) VALUES ('default','',1,1)`,
		`INSERT INTO agents (name, owner, environment, kind, url, card_url, status, reason, card, card_hash, card_etag, title, description,
			agent_version, interfaces, use_interface, warnings, pending, allow, check_err, created_at, updated_at, version)
			VALUES ('echo','default','dev','a2a','http://agent','http://agent/card','active','','{}','','','','','','[]',0,'[]','null','[]','',1,1,1)`,
		`INSERT INTO tasks (agent, instance, id, context_id, principal, owner, state, final, status_at, updated_at)
			VALUES ('echo','','t','c','client','default','TASK_STATE_WORKING',0,1,1)`,
	} {
		if _, err := conn.Exec(t.Context(), row); err != nil {
			t.Fatalf("%v in %s", err, row)
		}
	}
	db := replicaOf(t, url, nil)
	agent, err := db.Agent(t.Context(), "echo")
	if err != nil || agent.AuthRequired != "" || agent.Signature.State != "" || agent.Pins != nil {
		t.Errorf("agent of an old database: %+v, %v", agent, err)
	}
	key := call.TaskKey{Agent: "echo", ID: "t"}
	if task, err := db.Task(t.Context(), key); err != nil || task.State != "TASK_STATE_WORKING" {
		t.Errorf("task of an old database: %+v, %v", task, err)
	}
	if last, err := db.Append(t.Context(), key, parley.DefaultOwner, []byte(`{}`)); err != nil || last != 1 {
		t.Errorf("first event of an old task: %d, %v", last, err)
	}
}
