package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Everything that this package knows of Parley's surface stands in this file.

// readyPoll is the pause between two looks for the ready file.
const readyPoll = 20 * time.Millisecond

// Mesh is a running Parley with a data directory of its own.
type Mesh struct {
	URL    string // of the edge, with a trailing slash
	Config string // file that it was started with, for another start on its data
	Data   string // its data directory

	binary  string
	process *process
}

// BuildParley builds the binary and returns its path.
func (p *Peers) BuildParley(ctx context.Context) (string, error) {
	binary := filepath.Join(p.bin, "parley")
	return binary, command(ctx, p.root, "go", "build", "-o", binary, "./cmd/parley")
}

// StartMesh starts Parley on free ports with its configuration and data below
// dir, which must be an absolute path, and returns when it serves. The lines are
// added to the configuration.
func StartMesh(ctx context.Context, binary, dir string, lines ...string) (*Mesh, error) {
	ready := filepath.Join(dir, "ready.json")
	m := &Mesh{Config: filepath.Join(dir, "parley.yaml"), Data: filepath.Join(dir, "data"), binary: binary}
	config := fmt.Appendf(nil, "data: %q\nlisten: 127.0.0.1:0\nops_listen: 127.0.0.1:0\n", m.Data)
	if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "grpc_listen:") }) {
		lines = append(slices.Clone(lines), "grpc_listen: 127.0.0.1:0")
	}
	err := os.WriteFile(m.Config, append(config, strings.Join(lines, "\n")+"\n"...), 0o600)
	if err != nil {
		return nil, fmt.Errorf("start parley: %w", err)
	}
	if m.process, err = launch(ctx, "parley", nil, binary, "serve", "--config", m.Config, "--ready-file", ready); err != nil {
		return nil, err
	}
	if m.URL, err = m.await(ctx, ready); err != nil {
		return nil, errors.Join(err, m.Stop())
	}
	return m, nil
}

// await waits for the ready file and returns the address of the edge.
func (m *Mesh) await(ctx context.Context, file string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		text, err := os.ReadFile(file)
		if err == nil {
			return edge(text)
		}
		if !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("start parley: %w", err)
		}
		select {
		case <-m.process.ended:
			return "", fmt.Errorf("start parley: it ended: %w%s", m.process.err, m.process.said())
		case <-ctx.Done():
			return "", fmt.Errorf("start parley: no ready file: %w%s", ctx.Err(), m.process.said())
		case <-time.After(readyPoll):
		}
	}
}

// edge reads the edge's address from the ready file, with or without a scheme.
func edge(text []byte) (string, error) {
	var ready struct {
		Listen string `json:"listen"`
	}
	if err := json.Unmarshal(text, &ready); err != nil {
		return "", fmt.Errorf("parley's ready file: %w", err)
	}
	if ready.Listen == "" {
		return "", fmt.Errorf("parley's ready file: no \"listen\" in %s", text)
	}
	address := strings.TrimSuffix(ready.Listen, "/") + "/"
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	return address, nil
}

// Stop ends Parley. It is an error if it does not end cleanly.
func (m *Mesh) Stop() error { return m.process.stop() }

// Agent is the address of an agent at the mesh, with a trailing slash.
func (m *Mesh) Agent(name string) string { return m.URL + "agents/" + name + "/" }

// AddAgent registers the agent at url under name.
func (m *Mesh) AddAgent(ctx context.Context, name, url string) error {
	_, err := m.run(ctx, nil, "agent", "add", name, url, "--output", "json")
	return err
}

// GiveToken stores the bearer token that the agent asks of its callers.
func (m *Mesh) GiveToken(ctx context.Context, name, token string) error {
	_, err := m.run(ctx, strings.NewReader(token), "agent", "auth", name, "--bearer", "--secret-file", "-")
	return err
}

// NewCaller makes a principal of that name and a key for it, and returns the
// key.
func (m *Mesh) NewCaller(ctx context.Context, name string) (string, error) {
	if _, err := m.run(ctx, nil, "principal", "create", name, "--output", "json"); err != nil {
		return "", err
	}
	return m.newKey(ctx, name)
}

// StartCaller starts an agent that can itself call others through the mesh: it
// is registered under the name in o, gets a key of its own, and starts with it.
// An agent must be there to be registered, and registered to get a key, so it
// starts twice, at the same address.
func (m *Mesh) StartCaller(ctx context.Context, peers *Peers, sdk SDK, o AgentOptions) (*Agent, error) {
	first, err := peers.StartAgent(ctx, sdk, o)
	if err != nil {
		return nil, err
	}
	if err := m.AddAgent(ctx, o.Name, first.URL); err != nil {
		return nil, errors.Join(err, first.Stop())
	}
	key, err := m.newKey(ctx, "agent:"+o.Name)
	if err := errors.Join(err, first.Stop()); err != nil {
		return nil, err
	}
	if o.Port, err = portOf(first.URL); err != nil {
		return nil, err
	}
	o.Env = append(slices.Clone(o.Env), "PARLEY_URL="+m.URL, "PARLEY_KEY="+key)
	return peers.StartAgent(ctx, sdk, o)
}

func portOf(address string) (int, error) {
	parsed, err := url.Parse(address)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(parsed.Port())
}

func (m *Mesh) newKey(ctx context.Context, holder string) (string, error) {
	out, err := m.run(ctx, nil, "key", "create", "--for", holder, "--output", "json")
	if err != nil {
		return "", err
	}
	var created struct {
		Key string `json:"key"`
	}
	if err := json.Unmarshal(out, &created); err != nil {
		return "", fmt.Errorf("parley key create: %w", err)
	}
	if created.Key == "" {
		return "", errors.New("parley key create: its JSON has no member \"key\"")
	}
	return created.Key, nil
}

// OpenCall is the outcome of a call that has none yet.
const OpenCall = "open"

// Call is what the demo and the tests want to know of a recorded call.
type Call struct {
	ID            string  `json:"id"`
	Parent        string  `json:"parent"` // empty where it begins a chain
	Caller        string  `json:"caller"`
	CallerAgent   string  `json:"callerAgent"` // the agent that the caller is, if it is one
	Agent         string  `json:"agent"`
	Method        string  `json:"method"`
	CallerBinding string  `json:"callerBinding"`
	AgentBinding  string  `json:"agentBinding"` // empty where no agent was asked
	Outcome       string  `json:"outcome"`      // OpenCall, or how it ended
	TotalMS       float64 `json:"totalMs"`
}

// Calls lists the recorded calls, oldest first.
func (m *Mesh) Calls(ctx context.Context) ([]Call, error) {
	out, err := m.run(ctx, nil, "calls", "list", "--limit", "0", "--output", "json")
	if err != nil {
		return nil, err
	}
	var calls []Call
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for decoder.More() {
		var c Call
		if err := decoder.Decode(&c); err != nil {
			return nil, fmt.Errorf("parley calls list: %w", err)
		}
		calls = append(calls, c)
	}
	slices.Reverse(calls) // the newest comes first
	return calls, nil
}

// Tree is the chain that a call stands in, as the command line draws it.
func (m *Mesh) Tree(ctx context.Context, call string) (string, error) {
	out, err := m.run(ctx, nil, "calls", "tree", call)
	return string(out), err
}

// run calls one verb of the command line and returns what it printed.
func (m *Mesh) run(ctx context.Context, stdin *strings.Reader, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, m.binary, append(args, "--data", m.Data)...)
	cmd.Env = environment(nil)
	if stdin != nil {
		cmd.Stdin = stdin
	}
	var stderr tail
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("parley %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return out, nil
}
