// Package bench measures what a governed call costs beside an ungoverned one.
//
// Three paths carry the same A2A requests to the same agent in one run: the
// load generator straight to the agent, through a tuned httputil.ReverseProxy,
// and through Parley with everything on. Agent, proxy, Parley and load
// generator are processes of their own, so that the CPU time of the one in the
// middle can be read alone.
//
// Rows come in groups, each measured on processes of its own: JSON-RPC, the
// same on PostgreSQL beside SQLite, two replicas against one, gRPC with a
// transparent gRPC proxy for a yardstick, the memory of
// streams that idle, and the delay and memory of many that follow one task.
//
// What is judged are ratios of neighbouring measurements: the paths take turns
// within each pair, the order alternates, and the statistic is the median of
// the per-pair ratios with its spread. Absolute figures stand beside them and
// are never judged, because they belong to the machine. A missed goal is
// printed, never an error; a request that was not answered with a JSON-RPC
// result is an error, because then nothing was measured.
//
// The package shares no code with the product: it has its own HTTP/1.1 client,
// its own JSON scanner and its own agent, so that a fault in a codec of ours
// cannot hide itself, and it must never be linked into the product's binary.
// How Parley is started and set up is in parley.go alone.
//
// Values of this package are not safe for concurrent use unless they say so.
package bench
