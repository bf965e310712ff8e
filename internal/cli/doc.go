// Package cli is the command line: one file per verb. Management verbs use the
// control API only; send and task are A2A clients of the edge. A verb decides
// nothing: it reads flags, asks, and prints a table or JSON.
//
// Results go to the output, everything else to the error stream. With --output
// json a result is one document, and a list or stream one line per item. Text
// that others wrote is printed only after what a terminal would obey was taken
// out of it.
//
// Exit codes are those of parley.Kind: 0 ok, 1 the agent or call failed, 2
// usage, 3 not found, 4 denied, 5 invalid input, 6 timeout, 7 unavailable.
package cli
