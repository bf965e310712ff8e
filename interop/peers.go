package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// SDK names one of the official A2A SDKs.
type SDK string

// The SDKs that take part; those of version 0.3 of the protocol stand beside
// their successors.
const (
	Go           SDK = "go"
	JavaScript   SDK = "js"
	Python       SDK = "python"
	Go03         SDK = "go03"
	JavaScript03 SDK = "js03"
	Python03     SDK = "python03"
)

// Binding names a protocol binding as agent cards do.
type Binding string

// The bindings. A client speaks gRPC only where it is told to.
const (
	JSONRPC  Binding = "JSONRPC"
	HTTPJSON Binding = "HTTP+JSON"
	GRPC     Binding = "GRPC"
)

// maxDocument bounds the JSON of one scenario, in bytes.
const maxDocument = 1 << 20

// Peers are the foreign programs, installed and built.
type Peers struct {
	root string // of the repository
	bin  string // where the Go programs are
}

// Install installs the SDKs from their lock files, unless that was done
// before, and builds the Go programs into the directory bin, which is taken
// from the root of the repository if it is relative. The working directory
// must be inside the repository.
func Install(ctx context.Context, bin string) (*Peers, error) {
	root, err := repository()
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(bin) {
		bin = filepath.Join(root, bin)
	}
	if err := command(ctx, root, filepath.Join(root, "interop", "install")); err != nil {
		return nil, err
	}
	for _, program := range []string{"agent", "client", "agent03", "client03"} {
		err := command(ctx, root, "go", "build", "-o", filepath.Join(bin, "go-"+program), "./interop/go/"+program)
		if err != nil {
			return nil, err
		}
	}
	return &Peers{root: root, bin: bin}, nil
}

// AgentOptions says how an agent shows itself. The zero value is an open agent
// on a free port with both bindings.
type AgentOptions struct {
	Name     string    // on the card; the SDK's name and "-agent" if empty
	Port     int       // 0 takes a free one
	Bindings []Binding // in the card's order; JSON-RPC and REST if empty
	Token    string    // asked of callers as a bearer token; none if empty
	Env      []string  // KEY=value, beside this process's environment
}

// Agent is a running agent.
type Agent struct {
	URL     string // base address with a trailing slash; the card is below it
	process *process
}

// StartAgent starts the SDK's agent and returns when it serves. It runs until
// Stop, or until ctx ends.
func (p *Peers) StartAgent(ctx context.Context, sdk SDK, o AgentOptions) (*Agent, error) {
	name := o.Name
	if name == "" {
		name = string(sdk) + "-agent"
	}
	args := []string{"--name", name, "--port", fmt.Sprint(o.Port), "--token", o.Token}
	if len(o.Bindings) > 0 {
		args = append(args, "--bindings", join(o.Bindings))
	}
	program, before := p.program(sdk, "agent")
	process, err := launch(ctx, name, o.Env, program, append(before, args...)...)
	if err != nil {
		return nil, err
	}
	line, err := process.firstLine(ctx)
	if err != nil {
		return nil, errors.Join(err, process.stop())
	}
	url, ok := strings.CutPrefix(line, "ready ")
	if !ok {
		return nil, errors.Join(fmt.Errorf("%s: want \"ready URL\" first, got %q", name, line), process.stop())
	}
	return &Agent{URL: url, process: process}, nil
}

// Stop ends the agent. It is an error if it does not end cleanly.
func (a *Agent) Stop() error { return a.process.stop() }

// ClientOptions says what a client does.
type ClientOptions struct {
	URL       string   // base address of an agent, with a trailing slash
	Key       string   // API key; none if empty
	Binding   Binding  // what the card lists first if empty
	Scenarios []string // all if empty
	Say       string   // instead of scenarios: this one message, in a document of the scenario "say"
	Stream    bool     // Say is streamed
	Push      string   // instead of scenarios: the scenario "push", with this address to be told
}

// RunClient runs the SDK's client and returns one document per scenario, in
// the order they were asked for. What an agent or Parley answers is never an
// error here; a client that cannot read the card, or ends otherwise than it
// should, is one, beside the documents that it printed until then.
func (p *Peers) RunClient(ctx context.Context, sdk SDK, o ClientOptions) ([]Document, error) {
	program, args := p.program(sdk, "client")
	args = append(args, "--url", o.URL, "--binding", string(o.Binding))
	if o.Say != "" {
		args = append(args, "--say", o.Say)
	}
	if o.Push != "" {
		args = append(args, "--push", o.Push)
	}
	if o.Stream {
		args = append(args, "--stream")
	}
	if len(o.Scenarios) > 0 {
		args = append(args, "--scenario", strings.Join(o.Scenarios, ","))
	}
	cmd := exec.CommandContext(ctx, program, args...)
	// The key is not an argument: other users of the machine see those.
	cmd.Env = environment([]string{"PARLEY_KEY=" + o.Key})
	var stderr tail
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s client at %s: %w: %s", sdk, o.URL, err, stderr.String())
	}
	documents, unread := readDocuments(out)
	return documents, errors.Join(err, unread)
}

func readDocuments(text []byte) ([]Document, error) {
	var documents []Document
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxDocument)
	for lines.Scan() {
		var d Document
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			return nil, fmt.Errorf("client's output: %w in %q", err, lines.Text())
		}
		documents = append(documents, d)
	}
	return documents, lines.Err()
}

// program is the command that starts a peer, up to its own flags.
func (p *Peers) program(sdk SDK, role string) (string, []string) {
	folder := filepath.Join(p.root, "interop", string(sdk))
	switch sdk {
	case JavaScript, JavaScript03:
		return "node", []string{filepath.Join(folder, role+".js")}
	case Python, Python03:
		// Unbuffered, and no __pycache__ in the source tree.
		return filepath.Join(folder, ".venv", "bin", "python"), []string{"-uB", filepath.Join(folder, role+".py")}
	case Go03:
		return filepath.Join(p.bin, "go-"+role+"03"), nil
	default:
		return filepath.Join(p.bin, "go-"+role), nil
	}
}

// repository finds the root of the repository from the working directory.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod here or above: run this inside the repository")
		}
		dir = up
	}
}

// command runs a program to its end in dir; what it prints shows only in the
// error.
func command(ctx context.Context, dir, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", cmd, err, bytes.TrimSpace(out))
	}
	return nil
}

func join(bindings []Binding) string {
	words := make([]string, len(bindings))
	for i, binding := range bindings {
		words[i] = string(binding)
	}
	return strings.Join(words, ",")
}
