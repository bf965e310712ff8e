// Package call is the record of governed calls: what is kept of each, which
// call it stands inside, and which tasks and contexts belong to whom. It
// decides and describes; it reads no clock, database or network.
//
// Invariants: a call that was forwarded has a record that was durable before;
// a record ends once; a task or context belongs to the principal that first
// used it and never changes hands.
package call
