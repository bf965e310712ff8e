package bench

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The process clock must agree with what the kernel tells the process itself.
func TestProcessCPU(t *testing.T) {
	own := func() time.Duration {
		var usage unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
			t.Fatal(err)
		}
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	before := own()
	got, err := processCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	after := own()
	const rounding = 20 * time.Millisecond // getrusage may lag by ticks
	if got < before-rounding || got > after+rounding {
		t.Errorf("processCPU = %s, getrusage says %s before and %s after", got, before, after)
	}
	if _, err := processCPU(1 << 22); err == nil { // above the largest process id
		t.Error("the CPU time of a process that does not exist was read")
	}
}

// What this process does itself is not foreign, what others do never shrinks.
func TestForeignCPU(t *testing.T) {
	before, err := foreignCPU(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	withPeer, err := foreignCPU([]int{os.Getppid()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const rounding = 50 * time.Millisecond
	peer, err := processCPU(os.Getppid())
	if err != nil {
		t.Fatal(err)
	}
	if before <= 0 || withPeer > before-peer+time.Second || withPeer < before-peer-rounding {
		t.Errorf("foreign %s, without a process that used %s: %s", before, peer, withPeer)
	}
}

func TestSleepUntil(t *testing.T) {
	at := time.Now().Add(2 * time.Millisecond)
	sleepUntil(at)
	if early := time.Until(at); early > 0 {
		t.Errorf("returned %s too early", early)
	}
	sleepUntil(at) // in the past: at once
}

// A server's time is that of its children too, those that have ended included.
func TestServerCPU(t *testing.T) {
	spin := exec.Command("sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
	if err := spin.Run(); err != nil {
		t.Fatal(err)
	}
	used := spin.ProcessState.UserTime() + spin.ProcessState.SystemTime()
	own, err := processCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	all, err := serverCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if all < own+used-2*tick {
		t.Errorf("server used %s, its first process alone %s and an ended child %s", all, own, used)
	}
}
