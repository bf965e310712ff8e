package bench

import (
	"errors"
	"fmt"
	"os"
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

// tick is the unit of /proc/stat, USER_HZ, which is 100 on every port of Linux
// that Go has.
const tick = 10 * time.Millisecond

// foreignCPU returns the CPU time that everything but this process, its
// children and the processes pids has used since the machine started, time
// that a hypervisor took away included. Only differences mean anything.
func foreignCPU(pids []int) (time.Duration, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("read CPU time of the machine: %w", err)
	}
	var user, nice, system, idle, iowait, irq, softirq, steal int64
	if _, err := fmt.Sscanf(string(stat), "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &iowait, &irq, &softirq, &steal); err != nil {
		return 0, fmt.Errorf("read CPU time of the machine: %w", err)
	}
	foreign := time.Duration(user+nice+system+irq+softirq+steal) * tick
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var usage unix.Rusage
		if err := unix.Getrusage(who, &usage); err != nil {
			return 0, fmt.Errorf("read own CPU time: %w", err)
		}
		foreign -= time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	for _, pid := range pids {
		used, err := processCPU(pid)
		if err != nil {
			return 0, err
		}
		foreign -= used
	}
	return foreign, nil
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
