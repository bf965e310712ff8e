package bench

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
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

// serverCPU returns the CPU time that process pid and its children have used so
// far, children that have ended included, those only to the tick.
func serverCPU(pid int) (time.Duration, error) {
	sum, err := processCPU(pid)
	if err != nil {
		return 0, err
	}
	own, err := processStat(pid)
	if err != nil {
		return 0, err
	}
	sum += own.gone
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, fmt.Errorf("read processes: %w", err)
	}
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue // not a process
		}
		stat, err := processStat(child)
		if err != nil || stat.parent != pid {
			continue // another's, or it has just ended: then it counts next time
		}
		if used, err := processCPU(child); err == nil {
			sum += used
		}
	}
	return sum, nil
}

// stat is what /proc/PID/stat tells.
type stat struct {
	parent int
	gone   time.Duration // CPU time of children that have ended
}

func processStat(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, fmt.Errorf("read process %d: %w", pid, err)
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name before may hold anything
	fields := strings.Fields(rest)
	const parent, childUser, childSystem = 1, 13, 14
	if len(fields) <= childSystem {
		return stat{}, fmt.Errorf("read process %d: %d fields", pid, len(fields))
	}
	numbers := make([]int64, 0, 3)
	for _, i := range []int{parent, childUser, childSystem} {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return stat{}, fmt.Errorf("read process %d: %w", pid, err)
		}
		numbers = append(numbers, n)
	}
	return stat{parent: int(numbers[0]), gone: time.Duration(numbers[1]+numbers[2]) * tick}, nil
}

// foreignCPU returns the CPU time that everything but this process, its
// children, the processes pids and the servers with their children has used
// since the machine started, time that a hypervisor took away included. Only differences mean anything.
func foreignCPU(pids, servers []int) (time.Duration, error) {
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
	for _, pid := range servers {
		used, err := serverCPU(pid)
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
