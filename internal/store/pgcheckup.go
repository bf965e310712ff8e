package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/parley-mesh/parley/internal/parley"
)

// CheckPostgres looks at a store on PostgreSQL from outside, and changes nothing
// in it: whether its server answers, and whether this program knows its schema.
// The error is ctx's where that ended the look.
func CheckPostgres(ctx context.Context, opt Postgres) (c Checkup, err error) {
	p, err := parsePostgres(&DB{}, opt)
	if err != nil {
		return Checkup{File: "store", Problem: parley.PublicMessage(err), Advice: "correct it in the configuration"}, nil
	}
	c = Checkup{File: p.where, Server: true}
	if err := p.check(ctx, &c); err != nil {
		if ctx.Err() != nil {
			return c, ctx.Err()
		}
		c.Problem, c.Advice = p.remedy(err), "see what the server's log says"
	}
	return c, nil
}

func (p *postgres) check(ctx context.Context, c *Checkup) (err error) {
	conn, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, away(conn.Close(context.WithoutCancel(ctx)))) }()
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	var made bool
	if err := conn.QueryRow(ctx, `SELECT pg_database_size(current_database()), to_regclass('goose_db_version') IS NOT NULL`).Scan(&c.Size, &made); err != nil {
		return away(err)
	}
	if !made {
		c.Size = 0 // no mesh has been here yet
		return nil
	}
	known, err := newestSchema("postgres")
	if err != nil {
		return err
	}
	err = conn.QueryRow(ctx, `SELECT max(version_id) FROM goose_db_version`).Scan(&c.Schema)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return away(err)
	}
	if c.Schema > known {
		c.Problem = fmt.Sprintf("its schema has version %d and this program knows versions up to %d", c.Schema, known)
		c.Advice = "use the newer program that made it"
	}
	return nil
}

// Size is how much room the database takes, in bytes; of SQLite 0.
func (db *DB) Size(ctx context.Context) (bytes int64, err error) {
	if db.pg == nil {
		return 0, nil
	}
	err = db.read.QueryRowContext(ctx, `SELECT pg_database_size(current_database())`).Scan(&bytes)
	return bytes, db.fault("store.size", "", err)
}

// Where names servers and database of a store on PostgreSQL, without a password;
// of SQLite its data directory.
func (db *DB) Where() string {
	if db.pg == nil {
		return db.opt.Dir
	}
	return db.pg.where
}
