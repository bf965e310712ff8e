// Package app is the wiring, and the only importer of everything: Open builds
// a mesh in dependency order, Run serves it, and what Open built is taken down
// in the opposite order by one stack, whether the start failed half-way or a
// signal ended a long life.
//
// The order of a stop: stop accepting, finish calls, stop background work,
// flush and close the store; one deadline for all, one log line a step.
package app
