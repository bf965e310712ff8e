package interop

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	startTime    = 30 * time.Second // until a program says that it serves; a cold interpreter on a busy machine is slow
	stopTime     = 5 * time.Second  // from SIGTERM to the end; after that it is killed
	tailBytes    = 16 << 10         // of a program's standard error kept for messages
	maxReadyLine = 4 << 10          // bytes of the first line of standard output
)

// process is a running program. Its standard error is kept in part, so that a
// failure can be explained.
type process struct {
	name   string
	cmd    *exec.Cmd
	lines  chan string // the first line of standard output, then closed
	ended  chan struct{}
	err    error // valid once ended is closed
	stderr tail
}

// launch starts the command. The process gets SIGTERM when ctx ends.
func launch(ctx context.Context, name string, env []string, program string, args ...string) (*process, error) {
	p := &process{name: name, lines: make(chan string, 1), ended: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, program, args...)
	p.cmd.Env = environment(env)
	p.cmd.Stderr = &p.stderr
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = stopTime
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go p.watch(stdout) // ends with the process
	return p, nil
}

func (p *process) watch(stdout io.Reader) {
	reader := bufio.NewReaderSize(stdout, maxReadyLine)
	if line, err := reader.ReadSlice('\n'); err == nil {
		p.lines <- strings.TrimSpace(string(line))
	}
	close(p.lines)
	// What follows is for nobody, but a full pipe would stop the program.
	_, _ = io.Copy(io.Discard, reader)
	p.err = p.cmd.Wait()
	close(p.ended)
}

// firstLine waits for the first line of standard output.
func (p *process) firstLine(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	select {
	case line, ok := <-p.lines:
		if !ok {
			<-p.ended
			return "", fmt.Errorf("%s ended before it was ready: %w%s", p.name, p.err, p.said())
		}
		return line, nil
	case <-ctx.Done():
		return "", fmt.Errorf("%s is not ready: %w%s", p.name, ctx.Err(), p.said())
	}
}

// stop asks the program to end with SIGTERM. It is an error if it does not end
// in time or not with status 0.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	select {
	case <-p.ended:
	case <-time.After(stopTime):
		if err := p.cmd.Process.Kill(); err != nil {
			return fmt.Errorf("kill %s: %w", p.name, err)
		}
		<-p.ended
		return fmt.Errorf("stop %s: still running %s after SIGTERM, killed%s", p.name, stopTime, p.said())
	}
	if p.err != nil {
		return fmt.Errorf("stop %s: %w%s", p.name, p.err, p.said())
	}
	return nil
}

// said is what the program wrote to standard error last, ready to be appended
// to a message.
func (p *process) said() string {
	if words := p.stderr.String(); words != "" {
		return "\nits standard error ends:\n" + words
	}
	return ""
}

// environment is this process's, with times in UTC, so that results are alike
// on every machine, and no proxy for the loopback addresses all this runs on.
func environment(extra []string) []string {
	env := append(os.Environ(), "TZ=UTC", "NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost", "PARLEY_KEY=")
	return append(env, extra...)
}

// tail keeps the last bytes written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

// Write implements io.Writer.
func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, text...)
	if over := len(t.kept) - tailBytes; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(text), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.kept))
}
