// Package store keeps what the domains need kept, in SQLite. It holds all SQL
// of the mesh and decides nothing: rules live in the domains.
//
// One goroutine writes, over a connection of its own. Whatever waits is
// committed together, so that a durable commit is shared by all callers of the
// moment; an operation that fails is taken out and the others commit without
// it. Reads use a small pool of their own and never wait for the writer,
// except to see what this process has handed over already.
//
// Invariants: state and the events that tell of it are one transaction; every
// event has its place in one feed, given by the writer in order of commit;
// what an exported method has acknowledged under durability strict survives a
// power cut; tasks and contexts never change hands, but for those of deleted
// principals, which are nobody's from then on; payloads and secrets rest sealed
// (package vault). One process at a time may open a data directory.
//
// Failures of the disk are parley.Unavailable errors that name the directory
// and the remedy. While they last, writes are refused at once and retried in
// the background; nothing acknowledged is lost, and nothing needs a restart.
// What waits in memory meanwhile is bounded (Options.BacklogMax, CanRecord).
//
// All methods are safe for concurrent use.
package store
