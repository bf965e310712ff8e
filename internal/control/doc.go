// Package control is the mesh's management API and its client: owners,
// principals, keys, agents, cards, calls, tasks, events and status under
// /api/v1. It decides nothing itself: a handler decodes, does one operation of
// a domain and encodes the answer. What may be called here is for admins and
// operators only; calls to agents go through the gateway.
//
// The JSON of requests and answers is the structs of this package, shared by
// Server and Client: names in lowerCamelCase, durations in milliseconds and
// named so, times as RFC 3339. Members that a request does not know are
// refused. Failures are problem details (RFC 9457) with the stable code of
// parley.Kind and the wrong fields as JSON pointers.
//
// Server and Client are safe for concurrent use.
package control
