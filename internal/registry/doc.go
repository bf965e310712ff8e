// Package registry says which agents exist: their cards, interfaces, status,
// credentials towards them and which owners may call them.
//
// Invariants: nothing is stored of an agent whose card did not pass; a change
// of the origins an agent is called at waits for approval; a credential goes
// only to the origin it was stored for.
package registry
