package bench

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// cpuSource says in the report where CPU times come from.
const cpuSource = "the kernel's CPU clock of the process (`clock_gettime` on its process clock): user and system time of all its threads, in nanoseconds, not in ticks"

// processCPU returns the user and system time that process pid has used so
// far, threads that have ended included.
func processCPU(pid int) (time.Duration, error) {
	// Linux encodes the scheduler clock of a whole process as the complement
	// of its id shifted by three, with 2 in the low bits; this is what
	// clock_getcpuclockid(3) returns.
	clock := int32(^pid)<<3 | 2
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0, fmt.Errorf("read CPU time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// sleepUntil returns at t or soon after. It asks the kernel directly: the
// runtime's own timers round a wait of less than a millisecond up to one when
// the process is otherwise idle.
func sleepUntil(t time.Time) {
	for {
		left := time.Until(t)
		if left <= 0 {
			return
		}
		wait := unix.NsecToTimespec(int64(left))
		if err := unix.Nanosleep(&wait, nil); err != nil && !errors.Is(err, unix.EINTR) {
			runtime.Gosched() // no sleep to be had: look at the clock again
		}
	}
}
