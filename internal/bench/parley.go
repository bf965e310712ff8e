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
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Everything this package knows of Parley's surface stands in this file: the
// command line, the ready file, where an agent is found.

// Names under which the benchmark registers itself.
const (
	benchOwner     = "bench"
	benchPrincipal = "bench-load"
	agentPrefix    = "bench-agent-" // and a number
)

const (
	parleyStartTime = 30 * time.Second
	readyPoll       = 20 * time.Millisecond
	commandTime     = 30 * time.Second // one management command
)

// parleyMesh is a running Parley in front of the benchmark's agents.
type parleyMesh struct {
	binary string
	dir    string
	data   string
	cmd    *exec.Cmd
	ended  chan error
	log    string // the file that has its standard error
	ready  readyFile
	agents []string // as registered
	key    string   // the caller's API key
}

// readyFile is what `parley serve --ready-file` writes when it serves.
type readyFile struct {
	Listen string `json:"listen"` // the edge, an absolute URL
	Ops    string `json:"ops"`    // operations: metrics, health, profiles
	GRPC   string `json:"grpc"`   // the gRPC edge, host:port; empty where there is none
}

// meshSettings are what a measurement needs besides Parley's defaults.
type meshSettings struct {
	streams   int    // open at once by one caller; 0: the default
	store     string // address of a database; empty: SQLite
	masterKey string // file with the key of a mesh that is there already
}

// startParley runs Parley on a fresh data directory with its default of strict
// durability until the bed is closed.
func (b *bed) startParley(ctx context.Context, settings meshSettings) (*parleyMesh, error) {
	dir, err := os.MkdirTemp(b.dir, "p")
	if err != nil {
		return nil, fmt.Errorf("start parley: %w", err)
	}
	p := &parleyMesh{binary: b.opts.Binary, dir: dir, data: filepath.Join(dir, "data"), ended: make(chan error, 1), log: filepath.Join(dir, "parley.log")}
	if err := p.start(ctx, settings); err != nil {
		return nil, err
	}
	b.stops, b.pids = append(b.stops, p.stop), append(b.pids, p.cmd.Process.Pid)
	return p, nil
}

// start runs the process and waits until it serves.
func (p *parleyMesh) start(ctx context.Context, settings meshSettings) error {
	// A file, not a pipe: copying a log line for each call would be work of this
	// process on the cores that are being measured.
	log, err := os.Create(p.log)
	if err != nil {
		return fmt.Errorf("start parley: %w", err)
	}
	defer log.Close() // the process has its own handle
	config := filepath.Join(p.dir, "parley.yaml")
	if err := os.WriteFile(config, settings.config(), 0o600); err != nil {
		return fmt.Errorf("start parley: %w", err)
	}
	ready := filepath.Join(p.dir, "ready.json")
	p.cmd = command(ctx, p.binary, "serve", "--config", config, "--data", p.data, "--listen", "127.0.0.1:0",
		"--grpc-listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--ready-file", ready)
	p.cmd.Stderr, p.cmd.Env = log, environment()
	diesWithUs(p.cmd, syscall.SIGTERM)
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start parley: %w", err)
	}
	go func() { p.ended <- p.cmd.Wait() }() // ends with the process; stop waits for it
	if err := p.await(ctx, ready); err != nil {
		return errors.Join(err, p.stop())
	}
	return nil
}

// config is the configuration file of the settings. One principal makes all
// the load: its allowance is not what is measured.
func (s meshSettings) config() []byte {
	text := []byte("limits:\n  rate_per_principal: 1000000\n  burst_per_principal: 1000000\n")
	if s.streams > 0 {
		text = fmt.Appendf(text, "  streams_per_principal: %d\n", s.streams)
	}
	if s.store != "" {
		text = fmt.Appendf(text, "store: %q\n", s.store)
	}
	if s.masterKey != "" {
		text = fmt.Appendf(text, "master_key: %q\n", "file:"+s.masterKey)
	}
	return text
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
			return fmt.Errorf("start parley: it ended (%v); its log ends: %s", err, logEnd(p.log))
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
	if _, after, ok := strings.Cut(r.GRPC, "://"); ok {
		r.GRPC = after
	}
	return nil
}

// register makes owner, principal, agents and key through the command line, as
// an operator would.
func (p *parleyMesh) register(ctx context.Context, agents ...string) error {
	steps := [][]string{
		{"owner", "create", benchOwner},
		{"principal", "create", benchPrincipal, "--owner", benchOwner},
	}
	for i, address := range agents {
		name := agentPrefix + strconv.Itoa(i)
		steps = append(steps, []string{"agent", "add", name, address, "--owner", benchOwner})
		p.agents = append(p.agents, name)
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

// masterKey is the file that a further replica needs.
func (p *parleyMesh) masterKey() (string, error) {
	path, err := filepath.Abs(filepath.Join(p.data, "master.key")) // in a file, paths start from its folder
	if err != nil {
		return "", fmt.Errorf("the master key's place: %w", err)
	}
	return path, nil
}

// target says how the load generator reaches the agents through the mesh: the
// first as the one that replies with messages, the second with tasks.
func (p *parleyMesh) target() Target {
	t := Target{Path: Parley, Header: []string{"Authorization: Bearer " + p.key}, PIDs: []int{p.cmd.Process.Pid}}
	for i, into := range []*[]string{&t.Message, &t.Task} {
		if i < len(p.agents) {
			*into = []string{p.ready.Listen + "/agents/" + p.agents[i] + "/"}
		}
	}
	return t
}

// grpcTarget says how the load generator reaches the first agent over gRPC.
func (p *parleyMesh) grpcTarget() Target {
	t := p.target()
	t.Message, t.Task, t.Tenant = []string{p.ready.GRPC}, nil, "agents."+p.agents[0]
	return t
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
			return fmt.Errorf("stop parley: %w; its log ends: %s", err, logEnd(p.log))
		}
		return nil
	case <-time.After(stopTime):
		return errors.Join(fmt.Errorf("stop parley: not within %s", stopTime), p.cmd.Process.Kill())
	}
}

// logTailBytes is how much of a log an error quotes.
const logTailBytes = 2000

// logEnd returns the end of a log.
func logEnd(file string) []byte {
	text, err := os.ReadFile(file)
	if err != nil {
		return []byte(err.Error())
	}
	return bytes.TrimSpace(text[max(0, len(text)-logTailBytes):])
}
