// Package a2agrpc is the gRPC binding of A2A v1.0, for both sides: a server that
// hands calls on as a2a.Request, and a client that package a2a's Client uses for
// endpoints of this binding.
//
// It moves messages as bytes. A message is read once, into the same JSON object
// that the other bindings carry, by which it is checked and understood; where both
// sides speak gRPC, the bytes themselves go on, so that fields this version of the
// protocol does not know survive at any depth. What has no place in protobuf is
// lost where JSON becomes a message: members of no field, and the digits of numbers
// beyond 2^53 in free-form values.
//
// The generated code of the official SDK serves as the description of the
// messages. Its clients, servers and conversions are not used.
//
// Servers, pools and clients are safe for concurrent use; a Call belongs to its
// handler.
package a2agrpc
