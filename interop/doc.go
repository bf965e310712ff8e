// Package interop puts Parley between programs that are not ours: agents and
// clients on the official Go, JavaScript and Python A2A SDKs, as separate
// processes. Its tests run every client against an agent directly and again
// through Parley, and the two results must be equal but for the lines of
// differences.txt. The demo starts the same programs.
//
// README.md says what the agents and clients do. The package itself starts and
// stops processes, runs clients and reads their results; it knows nothing of
// Parley's inside, only the command line and addresses that mesh.go uses.
// Nothing here is for production.
//
// Functions may be called from several goroutines; an Agent or a Mesh is
// stopped once, by whoever started it.
package interop
