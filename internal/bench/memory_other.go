//go:build !linux

package bench

import "errors"

// memorySource says in the report where memory figures come from.
const memorySource = "nowhere on this system"

// processMemory cannot read another process's memory outside Linux.
func processMemory(int) (memory, error) {
	return memory{}, errors.New("memory of another process: the benchmark reads it on Linux only")
}
