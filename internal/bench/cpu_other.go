//go:build !linux

package bench

import (
	"errors"
	"time"
)

// cpuSource says in the report where CPU times come from.
const cpuSource = "nowhere on this system"

// processCPU cannot read another process's CPU time outside Linux.
func processCPU(int) (time.Duration, error) {
	return 0, errors.New("CPU time of another process: the benchmark reads it on Linux only")
}

// serverCPU cannot read another process's CPU time outside Linux.
func serverCPU(pid int) (time.Duration, error) { return processCPU(pid) }

// foreignCPU cannot read the machine's CPU time outside Linux.
func foreignCPU([]int, []int) (time.Duration, error) {
	return 0, errors.New("CPU time of the machine: the benchmark reads it on Linux only")
}

// sleepUntil returns at t or soon after.
func sleepUntil(t time.Time) { time.Sleep(time.Until(t)) }
