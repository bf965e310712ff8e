// Command kit runs the A2A project's own test kit (a2aproject/a2a-tck, in the
// generation of package version 0.1.0) against the reference agent, directly or
// through a mesh, and prints what did not pass. The kit is not part of this
// repository: -kit names a copy of it, -python an interpreter that has its
// requirements. See docs/conformance-kit.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/app"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
)

// parts are the folders of the kit's tests, with the markers its own runner asks
// for.
var parts = map[string][]string{
	"mandatory":    {"tests/mandatory/", "-m", "mandatory or mandatory_protocol or mandatory_jsonrpc"},
	"capabilities": {"tests/optional/capabilities/"},
	"equivalence":  {"tests/optional/multi_transport/"},
	"quality":      {"tests/optional/quality/"},
	"features":     {"tests/optional/features/"},
}

// bindings are what the agent serves, by the kit's names. Its tests of equivalence
// compare one binding with another.
var bindings = map[string][]a2a.Binding{"jsonrpc": {a2a.JSONRPC}, "rest": {a2a.HTTPJSON}, "grpc": {a2a.GRPC}, pair: {a2a.JSONRPC, a2a.HTTPJSON}}

const pair = "jsonrpc,rest"

// delay is how long the agent works on a task: more than twice the kit's own time
// for a stream, as it asks, and long enough to cancel and continue it.
const delay = 6 * time.Second

// agentName is the reference agent's in the mesh.
const agentName = "kit"

type options struct {
	kit, python, way, transport, part string
	more                              []string
}

func main() {
	var o options
	flag.StringVar(&o.kit, "kit", "", "folder of the kit (required)")
	flag.StringVar(&o.python, "python", "python3", "interpreter that has the kit's requirements")
	flag.StringVar(&o.way, "way", "", "direct or through; empty: both")
	flag.StringVar(&o.transport, "transport", "", "jsonrpc, rest, grpc or two as jsonrpc,rest; empty: each")
	flag.StringVar(&o.part, "part", "mandatory", "mandatory, capabilities, equivalence, quality, features or all")
	flag.Parse()
	o.more = flag.Args()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if _, err := os.Stat(filepath.Join(o.kit, "run_tck.py")); err != nil {
		return fmt.Errorf("-kit %q is no copy of the kit: give the folder that holds run_tck.py", o.kit)
	}
	python, err := exec.LookPath(o.python)
	if err != nil {
		return fmt.Errorf("-python: %w", err)
	}
	if o.python, err = filepath.Abs(python); err != nil {
		return err
	}
	chosen := choose(o.part, "all", "mandatory", "capabilities", "equivalence", "quality", "features")
	for _, way := range choose(o.way, "", "direct", "through") {
		for _, transport := range choose(o.transport, "", "jsonrpc", "rest", "grpc", pair) {
			for _, part := range chosen {
				if (part == "equivalence") != (transport == pair) {
					continue
				}
				if err := o.runPart(ctx, way, transport, part); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// choose is the one that was asked for, or all.
func choose(asked, everything string, all ...string) []string {
	if asked == everything {
		return all
	}
	return []string{asked}
}

// runPart runs one part of the kit against a fresh agent and prints what came of
// it.
func (o options) runPart(ctx context.Context, way, transport, part string) error {
	selection, ok := parts[part]
	if _, spoken := bindings[transport]; !ok || !spoken || way != "direct" && way != "through" {
		return fmt.Errorf("there is no %s %s %s: see -help", way, transport, part)
	}
	target, done, err := open(ctx, way, bindings[transport])
	if err != nil {
		return err
	}
	report := filepath.Join(os.TempDir(), fmt.Sprintf("parley-kit-%d.json", os.Getpid()))
	args := append([]string{"-m", "pytest", "-q", "--tb=no", "--no-header", "-p", "no:cacheprovider", "--test-scope=all",
		"--sut-url=" + target.url, "--transports=" + transport, "--json-report", "--json-report-file=" + report}, selection...)
	cmd := exec.CommandContext(ctx, o.python, append(args, o.more...)...)
	cmd.Dir, cmd.Env = o.kit, append(os.Environ(), "A2A_AUTH_TYPE=bearer", "A2A_AUTH_TOKEN="+target.token, "PYTHONDONTWRITEBYTECODE=1", "no_proxy=127.0.0.1", "NO_PROXY=127.0.0.1")
	output, runErr := cmd.CombinedOutput() // that tests failed is in the report
	results, err := readReport(report)
	err = errors.Join(err, done())
	if err != nil {
		return fmt.Errorf("run the kit: %w (%w)\n%s", err, runErr, output)
	}
	print(way, transport, part, results)
	return nil
}

// result is one test in the kit's report.
type result struct {
	ID      string `json:"nodeid"`
	Outcome string `json:"outcome"`
	Setup   phase  `json:"setup"`
	Call    phase  `json:"call"`
}

type phase struct {
	Crash struct {
		Message string `json:"message"`
	} `json:"crash"`
	LongText string `json:"longrepr"`
}

// reason is why a test failed or was left out, in one line.
func (r result) reason() string {
	for _, text := range []string{r.Call.Crash.Message, r.Setup.Crash.Message, r.Call.LongText, r.Setup.LongText} {
		if text != "" {
			line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
			return line[:min(len(line), 240)]
		}
	}
	return ""
}

func readReport(file string) ([]result, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var in struct {
		Tests []result `json:"tests"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, err
	}
	return in.Tests, os.Remove(file)
}

func print(way, transport, part string, results []result) {
	counts := map[string]int{}
	for _, r := range results {
		counts[r.Outcome]++
	}
	fmt.Printf("%s %s %s: %d passed, %d failed, %d skipped, %d expected to fail\n", way, transport, part,
		counts["passed"], counts["failed"]+counts["error"], counts["skipped"], counts["xfailed"])
	slices.SortFunc(results, func(a, b result) int { return strings.Compare(a.Outcome+a.ID, b.Outcome+b.ID) })
	for _, r := range results {
		if r.Outcome != "passed" {
			fmt.Printf("  %-7s %s\n          %s\n", r.Outcome, r.ID, r.reason())
		}
	}
}

// target is what the kit is pointed at.
type target struct{ url, token string }

// open starts the reference agent with one binding and, for through, a mesh
// before it. done ends both.
func open(ctx context.Context, way string, served []a2a.Binding) (_ target, done func() error, err error) {
	const token = "kit-token"
	agent := a2atest.New(a2atest.Options{Bindings: served, Credentials: map[string]string{"Bearer " + token: "kit"},
		Default: "tck-delayed-complete", Delay: delay, Extended: a2atest.ExtendedServed})
	var kitSees front
	front, closeFront, err := serve(&kitSees)
	if err != nil {
		return target{}, nil, err
	}
	kitSees.served = front
	behind, closeAgent, err := serveAgent(agent)
	if err != nil {
		return target{}, nil, errors.Join(err, closeFront())
	}
	done = func() error { return errors.Join(closeFront(), closeAgent()) }
	if way == "direct" {
		agent.SetURL(front + "/")
		if err := kitSees.to(behind, "", agent.Address(), ""); err != nil {
			return target{}, nil, errors.Join(err, done())
		}
		return target{front, token}, done, nil
	}
	agent.SetURL(behind + "/")
	origin := behind
	if slices.Contains(served, a2a.GRPC) {
		origin = "http://" + agent.Address()
	}
	key, ready, closeMesh, err := openMesh(ctx, front, control.NewAgent{Name: agentName, URL: behind, Auth: &control.NewAuth{Kind: "bearer", Secret: token, Origin: origin}})
	if err != nil {
		return target{}, nil, errors.Join(err, done())
	}
	if err := kitSees.to(ready.Listen, "/agents/"+agentName, ready.GRPC, "agents."+agentName); err != nil {
		return target{}, nil, errors.Join(err, closeMesh(), done())
	}
	return target{front, key}, func() error { return errors.Join(closeFront(), closeMesh(), closeAgent()) }, nil
}

// serveAgent serves the agent over HTTP and gRPC.
func serveAgent(agent *a2atest.Agent) (address string, done func() error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	over := agent.GRPC()
	agent.SetGRPC(l.Addr().String())
	ended := make(chan error, 1)
	go func() { ended <- over.Serve(l) }() // until done
	address, closeHTTP, err := serve(agent)
	done = func() error {
		return errors.Join(over.Close(), <-ended)
	}
	if err != nil {
		return "", nil, errors.Join(err, done())
	}
	return address, func() error { return errors.Join(closeHTTP(), done()) }, nil
}

func serve(h http.Handler) (address string, done func() error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	var spoken http.Protocols
	spoken.SetHTTP1(true)
	spoken.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, Protocols: &spoken}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }() // until done
	return "http://" + l.Addr().String(), func() error {
		err := s.Close()
		<-ended // always http.ErrServerClosed then
		return err
	}, nil
}

// openMesh runs a mesh that callers find at public, with the agent behind it. It
// gives a caller's key and where the mesh really listens.
func openMesh(ctx context.Context, public string, agent control.NewAgent) (key string, _ app.Ready, done func() error, err error) {
	dir, err := os.MkdirTemp("", "parley")
	if err != nil {
		return "", app.Ready{}, nil, err
	}
	cfg := config.Default()
	cfg.Data, cfg.Listen, cfg.GRPCListen, cfg.OpsListen, cfg.PublicURL = dir, "127.0.0.1:0", "127.0.0.1:0", "", public
	mesh, err := app.Open(ctx, cfg, app.Options{})
	if err != nil {
		return "", app.Ready{}, nil, errors.Join(err, os.RemoveAll(dir))
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- mesh.Run(running) }() // until done
	done = func() error {
		stop()
		return errors.Join(<-ended, os.RemoveAll(dir))
	}
	if key, err = register(ctx, mesh.Ready().Socket, agent); err != nil {
		return "", app.Ready{}, nil, errors.Join(err, done())
	}
	return key, mesh.Ready(), done, nil
}

// register adds the agent and makes a caller; it gives the caller's key.
func register(ctx context.Context, socket string, agent control.NewAgent) (string, error) {
	admin := control.NewSocketClient(socket)
	defer admin.Close()
	if _, err := admin.AddAgent(ctx, agent); err != nil {
		return "", err
	}
	if _, err := admin.CreatePrincipal(ctx, control.NewPrincipal{Name: "tester"}); err != nil {
		return "", err
	}
	key, err := admin.CreateKey(ctx, control.NewKey{Principal: "tester"})
	return key.Text, err
}
