package interop

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// overGRPC are the combinations in which one side or both speak gRPC, which not
// every program here does.
var overGRPC = []pair{
	{client: Go, agent: Go, spoken: GRPC, served: GRPC},
	{client: Go, agent: Python, spoken: GRPC, served: JSONRPC},
	{client: Go, agent: JavaScript, spoken: GRPC, served: HTTPJSON},
	{client: JavaScript, agent: Go, spoken: JSONRPC, served: GRPC},
	{client: Python, agent: Go, spoken: HTTPJSON, served: GRPC},
	{client: Python, agent: Python, spoken: GRPC, served: GRPC},
	{client: JavaScript, agent: Python, spoken: JSONRPC, served: GRPC},
}

// TestGRPCDirect runs every scenario over gRPC between stock peers alone.
func TestGRPCDirect(t *testing.T) {
	want := transcripts(t)
	for _, p := range overGRPC {
		if p.spoken != p.served {
			continue
		}
		t.Run(p.name(), func(t *testing.T) {
			agent := startAgent(t, p.agent, AgentOptions{Bindings: []Binding{GRPC}})
			for _, document := range runClient(t, p.client, ClientOptions{URL: agent.URL, Key: "a-key-of-the-caller", Binding: GRPC}) {
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

// TestGRPCThroughParley runs every scenario through Parley, where one side or both
// speak gRPC. What happens must be what happens directly, in any binding; the
// Go client over JSON-RPC is no measure here, since it hangs on some errors.
func TestGRPCThroughParley(t *testing.T) {
	mesh := startMesh(t)
	key := newCaller(t, mesh, "interop-client")
	want := transcripts(t)
	for _, p := range overGRPC {
		t.Run(p.name()+"/"+short(p.spoken)+"-to-"+short(p.served), func(t *testing.T) {
			name := p.name() + "-" + short(p.served)
			agent := startAgent(t, p.agent, AgentOptions{Bindings: []Binding{p.served}})
			addAgent(t, mesh, name, agent.URL)
			for _, document := range runClient(t, p.client, ClientOptions{URL: mesh.Agent(name), Key: key, Binding: p.spoken}) {
				got, err := document.Transcript()
				if err != nil {
					t.Fatal(err)
				}
				expected := strings.Replace(want.of(document.Scenario, p.agent), `"authorization":true,"traceparent":false`, `"authorization":false,"traceparent":true`, 1)
				if diff := cmp.Diff(expected, got); diff != "" {
					t.Errorf("%s: transcript (-want +got):\n%s", document.Scenario, diff)
				}
			}
			calls, err := mesh.Calls(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if last := lastCall(t, calls, name); last.CallerBinding != string(p.spoken) || last.AgentBinding != string(p.served) {
				t.Errorf("recorded as %s to %s", last.CallerBinding, last.AgentBinding)
			}
		})
	}
}

// TestGRPCToken has Parley give a gRPC agent the token it asks for, in metadata.
func TestGRPCToken(t *testing.T) {
	mesh := startMesh(t)
	key := newCaller(t, mesh, "interop-client")
	agent := startAgent(t, Go, AgentOptions{Bindings: []Binding{GRPC}, Token: "open-sesame"})
	addAgent(t, mesh, "closed", agent.URL)
	call := ClientOptions{URL: mesh.Agent("closed"), Key: key, Binding: JSONRPC, Scenarios: []string{"headers"}}
	if step := runClient(t, Go, call)[0].Steps[0]; step.Error == nil {
		t.Errorf("served before Parley had the token: %s", step.Result)
	}
	if err := mesh.GiveToken(t.Context(), "closed", "open-sesame"); err != nil {
		t.Fatal(err)
	}
	if step := runClient(t, Go, call)[0].Steps[0]; step.Error != nil {
		t.Errorf("with the token: %+v", step.Error)
	}
}

// TestCardsWithGRPC: a stock client that is told nothing still chooses what it
// chose before the card named gRPC.
func TestCardsWithGRPC(t *testing.T) {
	mesh := startMesh(t)
	key := newCaller(t, mesh, "interop-client")
	agent := startAgent(t, Go, AgentOptions{})
	addAgent(t, mesh, "any", agent.URL)
	for _, sdk := range []SDK{Go, JavaScript, Python} {
		if step := runClient(t, sdk, ClientOptions{URL: mesh.Agent("any"), Key: key, Scenarios: []string{"headers"}})[0].Steps[0]; step.Error != nil {
			t.Errorf("%s: %+v", sdk, step.Error)
		}
	}
	calls, err := mesh.Calls(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		if c.CallerBinding != string(JSONRPC) {
			t.Errorf("a client that was told nothing chose %s", c.CallerBinding)
		}
	}
}
