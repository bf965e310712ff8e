// Package store keeps what the domains need kept, in SQLite or PostgreSQL. It holds all SQL
// of the mesh and decides nothing: rules live in the domains.
//
// One goroutine writes, over a connection of its own. Whatever waits is
// committed together, so that a durable commit is shared by all callers of the
// moment; an operation that fails is taken out and the others commit without
// it. Reads use a small pool of their own and never wait for the writer,
// except to see what this process has handed over already.
//
// Invariants: state and the events that tell of it are one transaction; every
// event has its place in one feed, given in order of commit, so that a reader
// who goes on behind the last one misses none;
// what an exported method has acknowledged under durability strict survives a
// power cut; tasks and contexts never change hands, but for those of deleted
// principals, which are nobody's from then on; payloads and secrets rest sealed
// (package vault). One process at a time may open a data directory.
//
// On SQLite the writer is the only one, and gives places as it writes. On
// PostgreSQL several processes, the replicas, have a writer each; one of them at
// a time gives places, to what is committed. What must be right is in the
// database then: memory holds only what this process has handed over and what can
// be read anew (decision 0005).
//
// Failures of the disk, or of the database server, are parley.Unavailable errors
// that name the directory or the server, never its password, and the remedy. While they last, writes are refused at once and retried in
// the background; nothing acknowledged is lost, and nothing needs a restart.
// What waits in memory meanwhile is bounded (Options.BacklogMax, CanRecord).
//
// All methods are safe for concurrent use.
package store
