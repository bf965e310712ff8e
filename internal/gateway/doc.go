// Package gateway is the data plane: one function, handle, takes a call from
// arrival to answer, through the steps of the design's "life of a call". It
// speaks a2a.Request and a2a.Reply; the bindings on either side adapt to HTTP.
//
// What it keeps true: no request with effects leaves before its record is
// durable; every way out ends the record, also refusals and abandoned calls;
// a task or context is shown to the principal that first used it and to nobody
// else; nothing of an agent's host, credentials or internal causes reaches a
// caller. It fails closed.
//
// A Gateway is safe for concurrent use.
package gateway
