// Package registry says which agents exist: their cards, interfaces, status,
// credentials towards them and which owners may call them. It speaks no
// protocol and opens no connection: an Inspector looks at agents for it, a
// Store keeps them.
//
// decide.go holds the decisions (agent, what was found, now: new agent,
// events); Registrar loads, decides and saves; Directory answers calls from
// memory.
//
// Invariants: nothing is stored of an agent whose card did not pass; a change
// of the origins an agent is called at waits for approval, while the old card
// keeps serving; an agent that is gone stays, and says so; a credential goes
// only to the origin it was stored for. State and events are saved together.
//
// Registrar and Directory are safe for concurrent use; an Agent is a value of
// whoever loaded it, a Target is shared and never changes.
package registry
