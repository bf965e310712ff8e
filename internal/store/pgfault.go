package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// States of PostgreSQL's errors that are told apart.
const (
	pgUniqueViolation     = "23505"
	pgForeignKeyViolation = "23503"
	pgReadOnly            = "25006"
	pgSerialization       = "40001"
	pgDeadlock            = "40P01"
	pgDiskFull            = "53100"
	pgTooManyConnections  = "53300"
	pgTooLong             = "54000"
	pgLockNotAvailable    = "55P03"
	pgQueryCanceled       = "57014"
	pgNoDatabase          = "3D000"
	pgNoPrivilege         = "42501"
)

// state is the SQLSTATE in err's chain; empty if there is none.
func state(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// outage reports whether err comes from the way to the server or from the
// server's own state, and not from what was asked.
func outage(err error) bool {
	switch s := state(err); {
	case s == "":
		_, marked := errors.AsType[*outageError](err)
		return marked
	case s == pgReadOnly, s == "25P03", s == pgLockNotAvailable, s == pgNoDatabase, s == pgNoPrivilege:
		return true
	default:
		for _, class := range []string{"08", "28", "53", "57", "58", "F0", "XX"} {
			if strings.HasPrefix(s, class) {
				return true
			}
		}
		return false
	}
}

// collided reports whether a transaction met another one and can be tried again.
// The next number of a subject is read and then written: when two replicas write
// an event of one subject at once, the second finds its number taken.
func collided(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return false
	}
	return e.Code == pgSerialization || e.Code == pgDeadlock || e.Code == pgUniqueViolation && e.ConstraintName == "events_subject"
}

// unstorable reports whether a value cannot be kept as it is.
func unstorable(err error) bool {
	return errors.Is(err, errUnstorable) || state(err) == pgTooLong
}

// remedy says in one sentence what is wrong with the server and what to do. It
// names the server and the database, and never a password.
func (p *postgres) remedy(err error) string {
	switch s := state(err); {
	case s == pgDiskFull:
		return fmt.Sprintf("the disk of the database server of %s is full: make room there", p.where) + goesOn
	case s == pgReadOnly:
		return fmt.Sprintf("the database %s is read-only: it may be a standby; list the primary as well and add target_session_attrs=read-write to the address in store", p.where) + goesOn
	case s == pgTooManyConnections:
		return fmt.Sprintf("the database %s takes no more connections: raise its max_connections, or lower postgres.connections of the replicas", p.where) + goesOn
	case s == pgQueryCanceled, s == pgLockNotAvailable, errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("the database %s did not answer within postgres.statement_timeout: see what it waits for, and that it can be reached", p.where) + goesOn
	case s == pgNoDatabase:
		return fmt.Sprintf("the server has no database %s: create it, or correct the address in store", p.where)
	case s == pgNoPrivilege:
		return fmt.Sprintf("the user in store may not do that in the database %s: make it the owner of the schema", p.where)
	case strings.HasPrefix(s, "28"):
		return fmt.Sprintf("the database %s does not take the user or the password in store: correct them there, or in the server's pg_hba.conf", p.where)
	case strings.HasPrefix(s, "XX"):
		return fmt.Sprintf("the database %s is damaged or has a fault: read its server's log", p.where)
	}
	return fmt.Sprintf("the database %s cannot be reached: see that its server runs, and that the address in store is right", p.where) + goesOn
}
