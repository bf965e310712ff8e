// Package a2atest is a reference agent for tests: everything A2A v1.0 asks of an
// agent, built on the server side of package a2a, in both bindings. What it does
// with a message is chosen by the beginning of the message's id (see Behaviours),
// so that a test needs no agent of its own.
//
// Tasks and contexts belong to the Authorization value they were made with. All
// is kept in memory and within bounds: a context lives as long as a task in it,
// the oldest finished tasks make room for new ones, and where nothing is finished
// the agent says UNAVAILABLE. An Agent is safe for concurrent use; it starts no
// goroutine but the timers of delayed tasks, each of which ends by itself.
//
// The agent keeps no promise about push notifications, which it declares not to
// have, and nothing of it outlives the process.
package a2atest
