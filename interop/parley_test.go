package interop

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
)

// startMesh builds and starts Parley with these lines in its configuration.
func startMesh(t *testing.T, lines ...string) *Mesh {
	t.Helper()
	p := peers(t)
	binary, err := p.BuildParley(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mesh, err := StartMesh(context.WithoutCancel(t.Context()), binary, t.TempDir(), lines...)
	if err != nil {
		t.Fatal(err)
	}
	stopLater(t, mesh.Stop)
	return mesh
}

func newCaller(t *testing.T, mesh *Mesh, name string) string {
	t.Helper()
	key, err := mesh.NewCaller(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func addAgent(t *testing.T, mesh *Mesh, name, url string) {
	t.Helper()
	if err := mesh.AddAgent(t.Context(), name, url); err != nil {
		t.Fatal(err)
	}
}

// TestThroughParley runs every scenario with Parley between: each client with
// each agent, over every pairing of what the client speaks and what the agent
// does. It compares each result with that of the same pair alone, member by
// member, and the outcome with the table in docs/sdk/README.md.
func TestThroughParley(t *testing.T) {
	mesh := startMesh(t)
	allowed := allowedDifferences(t)
	used := map[Allowed]map[string]bool{} // line of the file to names of pairs
	for _, a := range allowed {
		used[a] = map[string]bool{}
	}
	key := newCaller(t, mesh, "interop-client")
	found := matrix{through: table{}, alone: table{}}
	var mu sync.Mutex // guards used and found
	// Each agent is one process for all its callers: what one client leaves
	// behind is nothing another one sees. Most of a client's time is waiting, so
	// that agents are gone through side by side.
	t.Run("pairs", func(t *testing.T) {
		for _, sdk := range []SDK{Go, JavaScript, Python} {
			for _, served := range bindings {
				name := string(sdk) + "-" + short(served)
				agent := startAgent(t, sdk, AgentOptions{Bindings: []Binding{served}})
				addAgent(t, mesh, name, agent.URL)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					for _, p := range everyPair() {
						if p.agent != sdk {
							continue
						}
						before := runClient(t, p.client, ClientOptions{URL: agent.URL, Key: "a-key-of-the-caller", Binding: served})
						mu.Lock()
						found.alone.set(p, string(served), alone(t, p, before))
						mu.Unlock()
						for _, spoken := range bindings {
							ok := t.Run(p.name()+"/"+short(spoken)+"-to-"+short(served), func(t *testing.T) {
								after := runClient(t, p.client, ClientOptions{URL: mesh.Agent(name), Key: key, Binding: spoken})
								differences := compareAll(t, before, after)
								mu.Lock()
								defer mu.Unlock()
								for _, d := range differences {
									at := slices.IndexFunc(allowed, func(a Allowed) bool { return a.Covers(p.name(), d.Place) })
									if at < 0 {
										t.Errorf("not in differences.txt: %s", d)
										continue
									}
									used[allowed[at]][p.name()] = true
								}
							})
							if ok {
								mu.Lock()
								found.through.set(p, crossing(spoken, served), "yes")
								mu.Unlock()
							}
						}
					}
				})
			}
		}
	})
	found.check(t)
	checkCrossings(t, mesh)
	if t.Failed() {
		return // a result that broke off does not show which lines are needed
	}
	for _, a := range allowed {
		for _, p := range everyPair() {
			if a.coversPair(p.name()) && !used[a][p.name()] {
				t.Errorf("differences.txt:%d: nothing differs there any more for %s, narrow or remove the line: %s %s", a.Line, p.name(), a.Pair, a.Place)
			}
		}
	}
}

// checkCrossings looks into the records for whether each agent was really called
// in every binding, and itself spoke its own.
func checkCrossings(t *testing.T, mesh *Mesh) {
	t.Helper()
	calls, err := mesh.Calls(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]map[string]bool{} // by agent
	for _, c := range calls {
		if seen[c.Agent] == nil {
			seen[c.Agent] = map[string]bool{}
		}
		if c.AgentBinding != "" { // what the mesh answers itself has none
			seen[c.Agent][crossing(Binding(c.CallerBinding), Binding(c.AgentBinding))] = true
		}
	}
	for _, sdk := range []SDK{Go, JavaScript, Python} {
		for _, served := range bindings {
			want := map[string]bool{}
			for _, spoken := range bindings {
				want[crossing(spoken, served)] = true
			}
			name := string(sdk) + "-" + short(served)
			if diff := cmp.Diff(want, seen[name]); diff != "" {
				t.Errorf("%s: bindings in the records (-want +got):\n%s", name, diff)
			}
		}
	}
}

func compareAll(t *testing.T, direct, parley []Document) []Difference {
	t.Helper()
	if len(direct) != len(parley) {
		t.Fatalf("%d scenarios directly, %d through Parley", len(direct), len(parley))
	}
	var all []Difference
	for i := range direct {
		found, err := Compare(direct[i], parley[i])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	return all
}

// short names a binding in tests and agents' names.
func short(b Binding) string {
	switch b {
	case HTTPJSON:
		return "rest"
	case GRPC:
		return "grpc"
	}
	return "jsonrpc"
}

// TestAgentCredential has Parley give each agent the token it asks for; the
// callers have none of their own.
func TestAgentCredential(t *testing.T) {
	mesh := startMesh(t)
	key := newCaller(t, mesh, "interop-client")
	for _, p := range pairs {
		t.Run(p.name(), func(t *testing.T) {
			agent := startAgent(t, p.agent, AgentOptions{Bindings: []Binding{p.served}, Token: "open-sesame"})
			addAgent(t, mesh, p.name(), agent.URL)
			call := ClientOptions{URL: mesh.Agent(p.name()), Key: key, Binding: p.spoken, Scenarios: []string{"headers"}}
			if step := runClient(t, p.client, call)[0].Steps[0]; step.Error == nil {
				t.Errorf("served before Parley had the token: %s", step.Result)
			}
			if err := mesh.GiveToken(t.Context(), p.name(), "open-sesame"); err != nil {
				t.Fatal(err)
			}
			if step := runClient(t, p.client, call)[0].Steps[0]; step.Error != nil {
				t.Errorf("with the token: %+v", step.Error)
			}
		})
	}
}

// TestForeignCaller shows that a client without a key, or with a wrong one,
// learns nothing but that.
func TestForeignCaller(t *testing.T) {
	mesh := startMesh(t)
	for _, p := range pairs {
		t.Run(p.name(), func(t *testing.T) {
			agent := startAgent(t, p.agent, AgentOptions{Bindings: []Binding{p.served}})
			addAgent(t, mesh, p.name(), agent.URL)
			for _, key := range []string{"", "pk_wrong"} {
				call := ClientOptions{URL: mesh.Agent(p.name()), Key: key, Binding: p.spoken, Scenarios: []string{"headers"}}
				if step := runClient(t, p.client, call)[0].Steps[0]; step.Error == nil {
					t.Errorf("key %q was served: %s", key, step.Result)
				}
			}
		})
	}
}

// TestRelay has each agent call another one from inside a call, as
// docs/sdk says, and looks for the chain in the records.
func TestRelay(t *testing.T) {
	mesh := startMesh(t)
	key := newCaller(t, mesh, "interop-client")
	last := startAgent(t, Python, AgentOptions{})
	addAgent(t, mesh, "last", last.URL)
	for _, sdk := range []SDK{Go, JavaScript, Python} {
		t.Run(string(sdk), func(t *testing.T) {
			name := "relay-" + string(sdk)
			agent, err := mesh.StartCaller(context.WithoutCancel(t.Context()), peers(t), sdk, AgentOptions{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			stopLater(t, agent.Stop)
			said := runClient(t, Go, ClientOptions{URL: mesh.Agent(name), Key: key, Say: "relay last echo hello"})
			got, err := said[0].Transcript()
			if err != nil {
				t.Fatal(err)
			}
			if want := "say: message \"last said: hello\"\n"; got != want {
				t.Fatalf("transcript %q, want %q", got, want)
			}
			calls, err := mesh.Calls(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			outer := lastCall(t, calls, name)
			inner := lastCall(t, calls, "last")
			if inner.Parent != outer.ID || inner.CallerAgent != name {
				t.Errorf("the inner call has caller %q and parent %q, want %q and %q", inner.CallerAgent, inner.Parent, name, outer.ID)
			}
			relayAtOnce(t, mesh, key, name)
		})
	}
}

// atOnce is how many calls an agent works on at the same time.
const atOnce = 4

// relayAtOnce has the agent relay several calls at once: the trace that it
// passes on tells the mesh which inner call belongs to which outer one.
func relayAtOnce(t *testing.T, mesh *Mesh, key, name string) {
	t.Helper()
	var clients errgroup.Group
	for range atOnce {
		clients.Go(func() error {
			_, err := peers(t).RunClient(t.Context(), Go, ClientOptions{URL: mesh.Agent(name), Key: key, Say: "relay last slow 500 tea"})
			return err
		})
	}
	if err := clients.Wait(); err != nil {
		t.Fatal(err)
	}
	calls, err := mesh.Calls(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	inside := map[string]int{} // calls to the last agent, by the call they are inside of
	outer := 0
	for _, c := range calls[len(calls)-2*atOnce:] {
		if c.Agent == "last" {
			inside[c.Parent]++
		} else {
			outer++
		}
	}
	if inside[""] > 0 || len(inside) != atOnce || outer != atOnce {
		t.Errorf("%d calls to %s and the inner ones by parent %v, want %d and one in each", outer, name, inside, atOnce)
	}
}

func lastCall(t *testing.T, calls []Call, agent string) Call {
	t.Helper()
	for _, c := range slices.Backward(calls) {
		if c.Agent == agent {
			return c
		}
	}
	t.Fatalf("no call to %s among %d", agent, len(calls))
	return Call{}
}

func allowedDifferences(t *testing.T) []Allowed {
	t.Helper()
	file, err := os.Open("differences.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	list, err := ReadAllowed(file)
	if err != nil {
		t.Fatalf("differences.txt: %v", err)
	}
	return list
}
