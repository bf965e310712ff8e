// Package a2a is the Agent2Agent protocol v1.0 as it stands on the wire, for both
// sides, in the bindings JSON-RPC and HTTP+JSON (REST).
//
// It is made for a program that stands between two parties and passes calls on.
// A call moves through it in this order:
//
//	Open       what is asked, from the request line and headers alone
//	ReadBody   the body, checked in one pass; Facts tell what a gateway must know
//	Client.Do  the same Request sent to any endpoint of any binding
//	Respond    the Reply written in the caller's binding, unary or as a stream
//
// Requests and results stay raw JSON on that way: where both sides speak the same
// binding the bytes pass as they came, else only the envelope is rewritten. The
// typed data model beside it is for programs that make or read messages. It keeps
// members it does not know, and it is also the rule that messages are checked by.
//
// [Server] puts the four together for an agent, [Conn] for a client.
//
// The package knows nothing of who may call what, and it keeps no tasks. It makes
// no connection but those of Client.Do, through the transport given to it.
// Client, Server and all functions are safe for concurrent use; a Request, a Reply
// and a Stream belong to one call.
package a2a
