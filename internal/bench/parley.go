package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Everything this package knows of Parley's surface stands in this file: the
// command line, the ready file, where an agent is found.

// Names under which the benchmark registers itself.
const (
	benchOwner     = "bench"
	benchPrincipal = "bench-load"
	messageAgent   = "bench-message"
	taskAgent      = "bench-task"
)

const (
	parleyStartTime = 30 * time.Second
	readyPoll       = 20 * time.Millisecond
	commandTime     = 30 * time.Second // one management command
)

// parleyMesh is a running Parley in front of the benchmark's agents.
type parleyMesh struct {
	binary string
	data   string
	cmd    *exec.Cmd
	ended  chan error
	log    string // the file that has its standard error
	ready  readyFile
	key    string // the caller's API key
}

// readyFile is what `parley serve --ready-file` writes when it serves.
type readyFile struct {
	Listen string `json:"listen"` // the edge, an absolute URL
	Ops    string `json:"ops"`    // operations: metrics, health, profiles
}

// startParley runs Parley on a fresh data directory below dir with its default
// of strict durability, registers the two agents and makes a key for the
// caller.
func startParley(ctx context.Context, binary, dir, messageURL, taskURL string) (*parleyMesh, error) {
	p := &parleyMesh{binary: binary, data: filepath.Join(dir, "data"), ended: make(chan error, 1), log: filepath.Join(dir, "parley.log")}
	// A file, not a pipe: copying a log line for each call would be work of this
	// process on the cores that are being measured.
	log, err := os.Create(p.log)
	if err != nil {
		return nil, fmt.Errorf("start parley: %w", err)
	}
	defer log.Close() // the process has its own handle
	ready := filepath.Join(dir, "ready.json")
	p.cmd = command(ctx, binary, "serve", "--data", p.data, "--listen", "127.0.0.1:0",
		"--grpc-listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--ready-file", ready)
	// One principal makes all the load: its allowance is not what is measured.
	p.cmd.Stderr, p.cmd.Env = log, append(environment(), "PARLEY_LIMITS_RATE_PER_PRINCIPAL=1000000", "PARLEY_LIMITS_BURST_PER_PRINCIPAL=1000000")
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start parley: %w", err)
	}
	go func() { p.ended <- p.cmd.Wait() }() // ends with the process; stop waits for it
	if err := p.await(ctx, ready); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	if err := p.register(ctx, messageURL, taskURL); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// environment is this process's without Parley's own variables: an operator's
// settings must neither change what is measured nor send the commands to the
// operator's mesh.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PARLEY_") })
}

// await waits for the ready file.
func (p *parleyMesh) await(ctx context.Context, file string) error {
	ctx, cancel := context.WithTimeout(ctx, parleyStartTime)
	defer cancel()
	for {
		text, err := os.ReadFile(file)
		if err == nil {
			return p.ready.decode(text)
		}
		if !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("start parley: %w", err)
		}
		select {
		case err := <-p.ended:
			p.ended <- err
			return fmt.Errorf("start parley: it ended (%v); its log ends: %s", err, p.logTail())
		case <-ctx.Done():
			return fmt.Errorf("start parley: no ready file: %w", ctx.Err())
		case <-time.After(readyPoll):
		}
	}
}

// decode reads the ready file's text; addresses may come with or without a
// scheme.
func (r *readyFile) decode(text []byte) error {
	if err := json.Unmarshal(text, r); err != nil {
		return fmt.Errorf("parley's ready file: %w", err)
	}
	for _, address := range []*string{&r.Listen, &r.Ops} {
		if *address == "" {
			return fmt.Errorf("parley's ready file: want \"listen\" and \"ops\", got %s", text)
		}
		if !strings.Contains(*address, "://") {
			*address = "http://" + *address
		}
		*address = strings.TrimSuffix(*address, "/")
	}
	return nil
}

// register makes owner, principal, agents and key through the command line, as
// an operator would.
func (p *parleyMesh) register(ctx context.Context, messageURL, taskURL string) error {
	steps := [][]string{
		{"owner", "create", benchOwner},
		{"principal", "create", benchPrincipal, "--owner", benchOwner},
		{"agent", "add", messageAgent, messageURL, "--owner", benchOwner},
		{"agent", "add", taskAgent, taskURL, "--owner", benchOwner},
	}
	for _, step := range steps {
		if _, err := p.run(ctx, step...); err != nil {
			return err
		}
	}
	out, err := p.run(ctx, "key", "create", "--for", benchPrincipal, "--output", "json")
	if err != nil {
		return err
	}
	var created struct {
		Key string `json:"key"`
	}
	if err := json.Unmarshal(out, &created); err != nil {
		return fmt.Errorf("parley key create: %w", err)
	}
	if created.Key == "" {
		return errors.New("parley key create: its JSON has no member \"key\"")
	}
	p.key = created.Key
	return nil
}

// run calls one management verb and returns what it printed.
func (p *parleyMesh) run(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	var stderr bytes.Buffer
	cmd := command(ctx, p.binary, append(args, "--data", p.data)...)
	cmd.Stderr, cmd.Env = &stderr, environment()
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("parley %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// target says how the load generator reaches the agents through the mesh.
func (p *parleyMesh) target() Target {
	return Target{
		Path:    Parley,
		Message: p.ready.Listen + "/agents/" + messageAgent + "/",
		Task:    p.ready.Listen + "/agents/" + taskAgent + "/",
		Header:  []string{"Authorization: Bearer " + p.key},
		PID:     p.cmd.Process.Pid,
	}
}

// profile copies a CPU profile of the next seconds to out.
func (p *parleyMesh) profile(ctx context.Context, out io.Writer, seconds int) error {
	from, err := url.JoinPath(p.ready.Ops, "/debug/pprof/profile")
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s?seconds=%d", from, seconds), nil)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("profile: %s answered %s", from, response.Status)
	}
	if _, err := io.Copy(out, response.Body); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	return nil
}

// stop asks Parley to end and waits for it.
func (p *parleyMesh) stop() error {
	if err := p.cmd.Cancel(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop parley: %w", err)
	}
	select {
	case err := <-p.ended:
		if err != nil {
			return fmt.Errorf("stop parley: %w; its log ends: %s", err, p.logTail())
		}
		return nil
	case <-time.After(stopTime):
		return errors.Join(fmt.Errorf("stop parley: not within %s", stopTime), p.cmd.Process.Kill())
	}
}

// logTailBytes is how much of Parley's log an error quotes.
const logTailBytes = 2000

// logTail returns the end of Parley's log.
func (p *parleyMesh) logTail() []byte {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	return bytes.TrimSpace(text[max(0, len(text)-logTailBytes):])
}
