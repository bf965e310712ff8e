// Package a2atest is a reference agent for tests: everything A2A v1.0 asks of an
// agent, built on the server side of package a2a, in both bindings. What it does
// with a message is chosen by the beginning of the message's id, so that a test
// needs no agent of its own. The names that begin with tck- are those of the
// official test kit.
//
//	tck-complete-task       completes with a text that repeats the message's, as does any id not named here
//	tck-delayed-complete    the same, after Options.Delay
//	test-resubscribe-message-id  the same, in the words of an older kit
//	tck-artifact-text       the same at once; -file, -file-url and -data produce other kinds of part
//	tck-message-response    answers with a message
//	tck-input-required      asks for input
//	tck-reject-task         rejects the task
//	ref-fail                fails
//	ref-auth-required       asks for an authorization out of band
//	ref-submit, ref-hold    leave the task submitted or working, for the test to drive: see SetStatus and AddArtifact
//	ref-stream-N            writes an artifact in N chunks, all at once, and completes; more than Options.MaxLag cut whoever follows
//	ref-recall              answers with a message that lists the tasks the message refers to, as far as they are its sender's
//	ref-error-REASON        answers with that error
//
// A message to a task that is not final acts by its own id. Tasks and contexts
// belong to the Authorization value they were made with. All is kept in memory and
// within bounds: a context lives as long as a task in it, the oldest finished tasks
// make room for new ones, and where nothing is finished the agent says UNAVAILABLE.
// An Agent is safe for concurrent use; it starts no goroutine but the timers of
// delayed tasks and those that push, each of which ends by itself.
//
// With Options.Push it sends push notifications: every event, in order, with one
// attempt, to each config; else it declares that it sends none. Nothing of it
// outlives the process.
package a2atest
