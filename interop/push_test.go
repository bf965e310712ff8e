package interop

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parley-mesh/parley/interop/go/peer"
	"github.com/parley-mesh/parley/webhook"
)

// pushTime is how long the last push of a task may take to arrive, in the pushes
// of the agent and of the mesh together.
const pushTime = time.Minute

// receiver takes the pushes of one run and verifies them, as a stranger would.
type receiver struct {
	told     chan string // of verified pushes, what they say
	verifier *webhook.Verifier

	mu      sync.Mutex
	refused []string // guarded by mu
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	d, err := r.verifier.Verify(q)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.refused = append(r.refused, err.Error())
		w.WriteHeader(http.StatusForbidden)
		return
	}
	version := "1.0"
	if strings.Contains(string(d.Body), `"kind":`) {
		version = "0.3"
	}
	words, err := tell(d.Body)
	if err != nil {
		words = err.Error()
	}
	r.told <- version + " " + strings.TrimPrefix(words, "task ")
}

// last waits for the push of a final state.
func (r *receiver) last(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, pushTime)
	defer cancel()
	var all []string
	for {
		select {
		case said := <-r.told:
			if all = append(all, said); strings.Contains(said, "COMPLETED") {
				return said
			}
		case <-ctx.Done():
			r.mu.Lock()
			defer r.mu.Unlock()
			return fmt.Sprintf("%v: told %q, refused %q", ctx.Err(), all, r.refused)
		}
	}
}

// TestPush has clients of every SDK, version and binding subscribe to tasks of every
// one as an agent, and be told of them. The mesh asks nothing by itself here: what is
// told the agents have pushed, and the mesh has passed on in the subscriber's
// version, signed. Without -matrix each SDK is played at least once on either side.
func TestPush(t *testing.T) {
	runs := onePerSDK(sample())
	if *wholeMatrix {
		runs = everyRun(t)
	}
	// So an agent that does not push is never asked while the test waits.
	quiet := []string{"watch:", "  first: 1h", "  max: 1h"}
	shared, named := startMesh(t, quiet...), startNamedMesh(t, quiet...)
	agents, keys := map[Endpoint]bool{}, map[Endpoint]string{}
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(clientsAtOnce)
	for _, r := range runs {
		if r.way == Direct {
			continue
		}
		client, agent := r.cell.Client, r.cell.Agent
		mesh := meshFor(client, shared, named)
		if keys[client] == "" {
			keys[client] = newCaller(t, mesh, atMesh(client))
		}
		if !agents[agent] {
			agents[agent] = true
			url := startAgent(t, agent.SDK, AgentOptions{Bindings: []Binding{agent.Binding}}).URL
			addAgent(t, shared, atMesh(agent), url)
			addAgent(t, named, atMesh(agent), url)
		}
		rec := &receiver{told: make(chan string, 64)}
		served := httptest.NewUnstartedServer(rec)
		address := "http://" + served.Listener.Addr().String() + "/push"
		var err error
		rec.verifier, err = webhook.New(webhook.Config{Issuer: strings.TrimSuffix(mesh.URL, "/"), Audience: address, Token: peer.PushToken})
		if err != nil {
			t.Fatal(err)
		}
		served.Start() // once the receiver has what it verifies with
		t.Cleanup(served.Close)
		key := keys[client]
		group.Go(func() error {
			documents, err := peers(t).RunClient(ctx, client.SDK, ClientOptions{URL: mesh.Agent(atMesh(agent)), Key: key, Binding: client.Binding, Push: address})
			if ctx.Err() != nil {
				return ctx.Err()
			}
			got := ""
			if err != nil {
				got = "client: " + cause(err) + "\n"
			}
			for _, d := range documents {
				text, err := d.Transcript()
				if err != nil {
					text = "not understood: " + err.Error() + "\n"
				}
				got += text
			}
			got += "told: " + rec.last(ctx) + "\n"
			if want := pushScript(client); got != want {
				t.Errorf("%s with %s: got\n%swant\n%s", client, agent, got, want)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// onePerSDK keeps the runs in which an SDK is a client, or an agent, for the first
// time.
func onePerSDK(runs []attempt) []attempt {
	clients, agents := map[SDK]bool{}, map[SDK]bool{}
	var kept []attempt
	for _, r := range runs {
		if client, agent := r.cell.Client.SDK, r.cell.Agent.SDK; !clients[client] || !agents[agent] {
			clients[client], agents[agent] = true, true
			kept = append(kept, r)
		}
	}
	return kept
}

// pushScript is what a client is told of its configs, and in the end of the task.
func pushScript(client Endpoint) string {
	told := []string{
		"send: open task",
		`create push: config "own" at push`,
		`create push: config "other" at push`,
		`get push: config "own" at push`,
		`list push: config "other" at push, config "own" at push`,
		"delete push: deleted",
		`list push: config "own" at push`,
	}
	if client.SDK == Python03 {
		told = told[:4] // its client has no more
	}
	return strings.Join(told, "\n") + "\ntold: " + releaseOf(client.SDK).protocol + ` COMPLETED "done"; result "tea"` + "\n"
}
