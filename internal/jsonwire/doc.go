// Package jsonwire decodes JSON from outside strictly, frames JSON-RPC 2.0, and
// edits raw JSON without touching the bytes it was not asked to touch.
//
// Strict means: one parser for the whole program (go-json-experiment's
// jsontext), valid UTF-8, no duplicate names, limits on size and depth, names
// matched exactly. A member that differs from a known member of the same object
// only in case or in underscores is refused with the right name, because two
// receivers could read it differently; every other unknown member passes. What a
// document may hold is a [Shape], compiled once from a Go struct and its tags, so
// that the type which decodes a message is also the rule that checks it.
//
// A Shape checks in one pass over the bytes and can report chosen members to a
// [Sink] on the way, so a program that only forwards a message never builds it.
//
// The package knows no protocol above JSON-RPC. Everything in it is safe for
// concurrent use; values handed out alias the input, which must not be changed
// while they are used.
package jsonwire
