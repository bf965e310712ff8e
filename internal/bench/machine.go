package bench

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Machine says where and with what a run was made. It holds no name of a host
// or of a person.
type Machine struct {
	CPU    string    `json:"cpu"`
	Cores  int       `json:"cores"`
	Memory string    `json:"memory"`
	OS     string    `json:"os"`
	Kernel string    `json:"kernel"`
	Go     string    `json:"go"`
	Commit string    `json:"commit"`
	Date   time.Time `json:"date"`
}

// thisMachine describes the machine; what cannot be found out is "unknown".
func thisMachine(ctx context.Context) Machine {
	return Machine{
		CPU:    procField("/proc/cpuinfo", "model name"),
		Cores:  runtime.NumCPU(),
		Memory: mainMemory(),
		OS:     runtime.GOOS + "/" + runtime.GOARCH,
		Kernel: firstLine("/proc/sys/kernel/osrelease"),
		Go:     runtime.Version(),
		Commit: commitOf(ctx),
		Date:   time.Now().UTC(),
	}
}

const unknown = "unknown"

// procField returns the value of the first line "name: value" of a file below
// /proc.
func procField(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return unknown
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, ok := strings.Cut(lines.Text(), ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return unknown
}

// mainMemory returns the size of main memory as a person would say it.
func mainMemory() string {
	total := procField("/proc/meminfo", "MemTotal")
	var kib float64
	if _, err := fmt.Sscanf(total, "%f kB", &kib); err != nil {
		return total
	}
	return fmt.Sprintf("%.0f GiB", kib/(1<<20))
}

func firstLine(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return unknown
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// commitOf returns the commit of the tree in the working directory, marked
// when tracked files differ from it. The report itself does not count: writing
// it must not make the next run look changed.
func commitOf(ctx context.Context) string {
	head, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return unknown
	}
	commit := strings.TrimSpace(string(head))
	changed, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--untracked-files=no", "--", ":/", ":(exclude,top)docs/benchmarks.md").Output()
	if err != nil || len(changed) > 0 {
		return fmt.Sprintf("%s with local changes", commit)
	}
	return commit
}
