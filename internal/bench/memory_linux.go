package bench

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// memorySource says in the report where memory figures come from.
const memorySource = "`/proc/PID/smaps_rollup`"

// processMemory returns what the kernel holds in main memory for process pid.
func processMemory(pid int) (memory, error) {
	file := fmt.Sprintf("/proc/%d/smaps_rollup", pid)
	f, err := os.Open(file)
	if err != nil {
		return memory{}, fmt.Errorf("read memory of process %d: %w", pid, err)
	}
	defer f.Close()
	found := map[string]float64{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), ":")
		var kib float64
		if _, err := fmt.Sscanf(value, "%f kB", &kib); ok && err == nil {
			found[name] = kib * 1024
		}
	}
	if err := lines.Err(); err != nil {
		return memory{}, fmt.Errorf("read memory of process %d: %w", pid, err)
	}
	m := memory{RSS: found["Rss"], PSS: found["Pss"], Anonymous: found["Anonymous"]}
	if m.RSS <= 0 || m.PSS <= 0 || m.Anonymous <= 0 {
		return memory{}, fmt.Errorf("read memory of process %d: %s lacks Rss, Pss or Anonymous", pid, file)
	}
	return m, nil
}
