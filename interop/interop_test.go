package interop

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// pairs are the combinations that every test runs: each SDK as a client and as
// an agent, each binding. TestThroughParley runs all there are. The agent
// declares its own binding alone, so that the direct client must speak it;
// through Parley the client speaks another one where the two differ.
var pairs = []pair{
	{client: Go, agent: Go, spoken: JSONRPC, served: JSONRPC},
	{client: JavaScript, agent: Python, spoken: JSONRPC, served: HTTPJSON},
	{client: Python, agent: JavaScript, spoken: HTTPJSON, served: JSONRPC},
}

type pair struct {
	client, agent SDK
	spoken        Binding // by the client, to Parley
	served        Binding // by the agent
}

// bindings are those that every SDK offers.
var bindings = []Binding{JSONRPC, HTTPJSON, GRPC}

// everyPair is each client with each agent.
func everyPair() []pair {
	sdks := []SDK{Go, JavaScript, Python}
	var all []pair
	for _, client := range sdks {
		for _, agent := range sdks {
			all = append(all, pair{client: client, agent: agent})
		}
	}
	return all
}

func (p pair) name() string { return string(p.client) + "-" + string(p.agent) }

// install builds and installs the peers once for all tests of the package.
var install = sync.OnceValues(func() (*Peers, error) {
	return Install(context.Background(), binaries)
})

// binaries is where the tests' programs are built.
var binaries string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "interop")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binaries = dir
	return m.Run()
}

func peers(t *testing.T) *Peers {
	t.Helper()
	p, err := install()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func startAgent(t *testing.T, sdk SDK, o AgentOptions) *Agent {
	t.Helper()
	// Not the test's context: it ends before the cleanup that says how the
	// agent ended.
	agent, err := peers(t).StartAgent(context.WithoutCancel(t.Context()), sdk, o)
	if err != nil {
		t.Fatal(err)
	}
	stopLater(t, agent.Stop)
	return agent
}

// stopLater fails the test if what it started does not end cleanly.
func stopLater(t *testing.T, stop func() error) {
	t.Helper()
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func runClient(t *testing.T, sdk SDK, o ClientOptions) []Document {
	t.Helper()
	documents, err := peers(t).RunClient(t.Context(), sdk, o)
	if err != nil {
		t.Fatal(err)
	}
	return documents
}

// direct is the result of a pair without Parley between.
func direct(t *testing.T, p pair) []Document {
	t.Helper()
	agent := startAgent(t, p.agent, AgentOptions{Bindings: []Binding{p.served}})
	// The agent asks for no key, and sees the one it gets.
	return runClient(t, p.client, ClientOptions{URL: agent.URL, Key: "a-key-of-the-caller"})
}

// TestDirect runs every scenario between stock peers alone. It shows what the
// SDKs really do, so that what the tests through Parley expect is not a guess.
func TestDirect(t *testing.T) {
	for _, p := range pairs {
		t.Run(p.name(), func(t *testing.T) {
			want := transcripts(t)
			for _, document := range direct(t, p) {
				got, err := document.Transcript()
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want.of(document.Scenario, p.agent), got); diff != "" {
					t.Errorf("%s: transcript (-want +got):\n%s", document.Scenario, diff)
				}
			}
		})
	}
}

// TestBindingsAgree runs one client against one agent over both bindings: what
// an SDK's user sees must not depend on the binding, or a translation could
// not be expected to hide it.
func TestBindingsAgree(t *testing.T) {
	for _, sdk := range []SDK{Go, JavaScript, Python} {
		t.Run(string(sdk), func(t *testing.T) {
			agent := startAgent(t, sdk, AgentOptions{})
			rpc := runClient(t, sdk, ClientOptions{URL: agent.URL, Binding: JSONRPC})
			rest := runClient(t, sdk, ClientOptions{URL: agent.URL, Binding: HTTPJSON})
			if diff := cmp.Diff(rpc, rest); diff != "" {
				t.Errorf("the same client and agent over JSON-RPC (-) and REST (+):\n%s", diff)
			}
		})
	}
}

// TestToken starts agents that want a credential: the client that has it is
// served, the one without is not.
func TestToken(t *testing.T) {
	for _, p := range pairs {
		t.Run(p.name(), func(t *testing.T) {
			agent := startAgent(t, p.agent, AgentOptions{Token: "open-sesame", Bindings: []Binding{p.served}})
			for key, want := range map[string]bool{"open-sesame": true, "wrong": false, "": false} {
				documents := runClient(t, p.client, ClientOptions{URL: agent.URL, Key: key, Scenarios: []string{"headers"}})
				if served := documents[0].Steps[0].Error == nil; served != want {
					t.Errorf("key %q: served = %t, want %t: %+v", key, served, want, documents[0].Steps[0].Error)
				}
			}
		})
	}
}

// expectation is the transcripts every pair must give, with variants for the
// agents whose SDK does otherwise.
type expectation map[string]string

func transcripts(t *testing.T) expectation {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/transcripts.txtar")
	if err != nil {
		t.Fatal(err)
	}
	e := expectation{}
	for _, file := range archive.Files {
		e[file.Name] = string(file.Data)
	}
	return e
}

func (e expectation) of(scenario string, agent SDK) string {
	if variant, ok := e[scenario+"."+string(agent)]; ok {
		return variant
	}
	return e[scenario]
}
