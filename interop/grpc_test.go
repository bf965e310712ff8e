package interop

import (
	"testing"
)

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
