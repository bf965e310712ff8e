// Package stream has the journal of a task's events, which makes streams
// survive: what was shown of a task is kept in order, each event under a
// sequence number of its own, so that whoever reads can go on behind the last
// one it has seen, at any replica of the store and after the mesh has died.
//
// The journal itself is in the store (Event, Entry). An event's number counts
// from 1 within its task and has no holes; old events are removed as retention
// says, and a reader that asks for one of them is told where the journal begins.
package stream
