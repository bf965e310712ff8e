package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	stopTime       = 10 * time.Second // how long a child may take to stop
	headerReadTime = 10 * time.Second // of the servers of this package
	startTime      = 20 * time.Second // how long a child may take to say where it listens
)

// started is the one line that a serving child prints when it listens.
type started struct {
	Bases []string `json:"bases"`          // absolute URLs, in the order of its handlers
	Task  string   `json:"task,omitempty"` // that is followed
}

// Serve gives each of the handlers a listener on a free loopback port, prints
// the addresses as one line of JSON to out, and serves until ctx ends. A
// handler is made from the absolute URL at which it will be found.
func Serve(ctx context.Context, out io.Writer, handlers ...func(base string) (http.Handler, error)) error {
	return serveAll(ctx, out, nil, handlers...)
}

// serveAll is Serve; further addresses are printed behind those of the
// handlers.
func serveAll(ctx context.Context, out io.Writer, further []string, handlers ...func(base string) (http.Handler, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the servers already started when a later one cannot be
	var ready started
	group, ctx := errgroup.WithContext(ctx)
	for _, newHandler := range handlers {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		defer listener.Close() // already closed by the server when all went well
		base := "http://" + listener.Addr().String() + "/"
		handler, err := newHandler(base)
		if err != nil {
			return err
		}
		ready.Bases = append(ready.Bases, base)
		server := &http.Server{Handler: handler, ReadHeaderTimeout: headerReadTime}
		group.Go(func() error {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve: %w", err)
			}
			return nil
		})
		group.Go(func() error {
			<-ctx.Done()
			return server.Close()
		})
	}
	ready.Bases = append(ready.Bases, further...)
	if err := json.NewEncoder(out).Encode(ready); err != nil {
		return fmt.Errorf("print addresses: %w", err)
	}
	if len(handlers) == 0 {
		<-ctx.Done()
		return nil
	}
	return group.Wait()
}

// child is a process of the benchmark's own program in one of its roles. It
// ends when its standard input does, so it cannot outlive its parent.
type child struct {
	started
	cmd   *exec.Cmd
	stdin io.Closer
	out   *bufio.Reader // what follows the first line
}

// startChild runs program with args, gives it spec where there is one, and
// waits until it says that it is ready.
func startChild(ctx context.Context, program string, spec *Spec, args ...string) (*child, error) {
	cmd := command(ctx, program, args...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	c := &child{cmd: cmd, stdin: stdin, out: bufio.NewReader(stdout)}
	late := time.AfterFunc(startTime, func() { stdout.Close() })
	defer late.Stop()
	if spec != nil {
		err = json.NewEncoder(stdin).Encode(spec)
	}
	var line []byte
	if err == nil {
		line, err = c.out.ReadBytes('\n')
	}
	if err == nil {
		err = json.Unmarshal(line, &c.started)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: read its addresses: %w", args[0], err), c.stop())
	}
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// stop ends the child and waits for it.
func (c *child) stop() error {
	c.stdin.Close() // the child may have gone already; Wait tells
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("stop %s: %w", c.cmd.Args[1], err)
	}
	return nil
}

// command is exec.CommandContext with a gentle end: SIGTERM first.
func command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTime
	return cmd
}

// loadInChild returns a measuring function that makes the load in a process of
// its own, started for each measurement from program.
func loadInChild(program string) func(context.Context, Spec) (Result, error) {
	return func(ctx context.Context, spec Spec) (Result, error) {
		in, err := json.Marshal(spec)
		if err != nil {
			return Result{}, fmt.Errorf("load: encode spec: %w", err)
		}
		cmd := command(ctx, program, "load")
		var stderr bytes.Buffer
		cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &stderr
		out, err := cmd.Output()
		if err != nil {
			return Result{}, fmt.Errorf("load generator: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
		}
		var result Result
		if err := json.Unmarshal(out, &result); err != nil {
			return Result{}, fmt.Errorf("load generator: decode result: %w", err)
		}
		return result, nil
	}
}

// ServeLoad reads one Spec from in, makes its load and writes the Result to
// out, both as JSON.
func ServeLoad(ctx context.Context, in io.Reader, out io.Writer) error {
	var spec Spec
	if err := json.NewDecoder(in).Decode(&spec); err != nil {
		return fmt.Errorf("load: decode spec: %w", err)
	}
	result, err := Load(ctx, spec)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(result); err != nil {
		return fmt.Errorf("load: write result: %w", err)
	}
	return nil
}
