//go:build linux

package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/app"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// roleVariable tells a copy of the test program what to be.
const roleVariable = "PARLEY_APP_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == "serve" {
		if err := serveUntilTold(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// storeVariable gives a copy of the test program the store of several.
const storeVariable = "PARLEY_APP_TEST_STORE"

// serveUntilTold is parley serve with its data in dir.
func serveUntilTold(dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg := config.Default()
	cfg.Data, cfg.Listen, cfg.GRPCListen, cfg.OpsListen = dir, "127.0.0.1:0", "127.0.0.1:0", ""
	if url := os.Getenv(storeVariable); url != "" {
		cfg.Store = config.PostgresStore(url)
		cfg.Postgres.Lease = time.Second
		cfg.Push.Timeout = time.Second // and with it the lease of what was being delivered
		cfg.Watch.First, cfg.Watch.Max = 50*time.Millisecond, 50*time.Millisecond
	}
	return app.Serve(ctx, cfg, app.Options{ReadyFile: readyFile(dir), LogTo: os.Stderr})
}

func readyFile(dir string) string { return dir + ".ready.json" }

// process is a mesh in a process of its own.
type process struct {
	cmd   *exec.Cmd
	ready app.Ready
	admin *control.Client
}

// startProcess runs a mesh on dir and waits until it serves.
func startProcess(t *testing.T, dir string, env ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0], dir)}
	p.cmd.Env = append(append(os.Environ(), roleVariable+"=serve"), env...)
	p.cmd.Stderr = t.Output()
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill() // it may have ended by itself
			_ = p.cmd.Wait()         // with the error of having been killed
		}
		_ = os.Remove(readyFile(dir)) // a killed process leaves it
	})
	p.ready = awaitReady(t, dir)
	p.admin = control.NewSocketClient(p.ready.Socket)
	t.Cleanup(p.admin.Close)
	return p
}

// awaitReady waits for the ready file, which appears by a rename.
func awaitReady(t *testing.T, dir string) (r app.Ready) {
	t.Helper()
	for deadline := time.Now().Add(parleytest.Patience); ; {
		raw, err := os.ReadFile(readyFile(dir))
		if err == nil {
			if err := json.Unmarshal(raw, &r); err != nil {
				t.Fatal(err)
			}
			return r
		}
		if time.Now().After(deadline) {
			t.Fatal("the process does not serve")
		}
		time.Sleep(5 * time.Millisecond) // another process's file: there is nothing to wait on
	}
}

// answer is what a caller was told, and when.
type answer struct {
	task string
	at   time.Time
}

// load calls an agent from many goroutines until calls fail, and gives what was
// answered, by message id, which begins with prefix. Whoever gets the answer of
// that number calls then at once.
func load(ctx context.Context, conn *a2a.Conn, prefix string, number int64, then func()) map[string]answer {
	var mu sync.Mutex
	var answered atomic.Int64
	told := map[string]answer{}
	var callers sync.WaitGroup
	for n := range 16 {
		callers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				id := fmt.Sprintf("%s-%d-%d", prefix, n, i)
				out, err := conn.SendMessage(ctx, parleytest.Message(id, "x"))
				if err != nil || out.Task == nil {
					return
				}
				if answered.Add(1) == number {
					then()
				}
				mu.Lock()
				told[id] = answer{out.Task.ID, time.Now()}
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	return told
}

// taskAgent registers an agent that answers every message with a finished task,
// and gives a caller's key.
func taskAgent(t *testing.T, p *process) (_ *parleytest.Agent, key string) {
	t.Helper()
	agent := parleytest.NewAgent(t, a2a.JSONRPC)
	ctx := t.Context()
	if _, err := p.admin.AddAgent(ctx, control.NewAgent{Name: "agent", URL: agent.URL}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.admin.CreatePrincipal(ctx, control.NewPrincipal{Name: "alice"}); err != nil {
		t.Fatal(err)
	}
	made, err := p.admin.CreateKey(ctx, control.NewKey{Principal: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	agent.Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply {
		one := a2a.Task{ID: "t-" + q.Facts.MessageID, ContextID: "c-" + q.Facts.MessageID, Status: a2a.TaskStatus{State: a2a.StateCompleted}}
		return a2a.Answer(q.Method, a2a.SendMessageResponse{Task: &one})
	})
	return agent, made.Text
}

// TestKillUnderLoad: after kill -9 every call that the agent saw is on record,
// every task that a caller was told of is its own, and the next start is clean.
func TestKillUnderLoad(t *testing.T) {
	dir := parleytest.Dir(t)
	p := startProcess(t, dir)
	ctx := t.Context()
	agent, key := taskAgent(t, p)

	var killed time.Time
	told := load(ctx, connTo(p.ready.Listen, "agent", key), "m", 500, func() {
		if err := p.cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		killed = time.Now()
	})
	if killed.IsZero() {
		t.Fatalf("the load ended after %d answers", len(told))
	}
	_ = p.cmd.Wait() // killed, so always an error
	checkAfterKill(t, dir, key, agent, told, killed)
}

func checkAfterKill(t *testing.T, dir, key string, agent *parleytest.Agent, told map[string]answer, killed time.Time) {
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) { c.Data = dir }})
	records := map[string]control.Call{}
	for c, err := range control.All(t.Context(), control.List{Limit: 200}, func(ctx context.Context, l control.List) (control.Page[control.Call], error) {
		return m.Admin.Calls(ctx, control.CallFilter{Method: "SendMessage"}, l)
	}) {
		if err != nil {
			t.Fatal(err)
		}
		records[c.MessageID] = c
	}
	unknown := 0
	for _, s := range agent.Seen() {
		if s.Method != a2a.SendMessage {
			continue
		}
		var in a2a.SendMessageRequest
		if err := json.Unmarshal(s.Params, &in); err != nil {
			t.Fatal(err)
		}
		id := in.Message.MessageID
		c, ok := records[id]
		switch {
		case !ok:
			t.Errorf("the agent saw %s, and there is no record of it", id)
		case c.Ended == nil:
			t.Errorf("call %s is still open: %+v", id, c)
		case c.Outcome == "unknown":
			unknown++
			if a, ok := told[id]; ok && killed.Sub(a.at) > time.Second {
				t.Errorf("call %s was answered %v before the kill and reads unknown", id, killed.Sub(a.at))
			}
		case c.Outcome != "ok" || c.TaskID == "" || len(c.Steps) == 0:
			t.Errorf("call %s is half recorded: %+v", id, c)
		}
	}
	t.Logf("%d calls on record, %d answered, %d unknown", len(records), len(told), unknown)
	conn := m.Caller("agent", a2a.JSONRPC, key)
	for id, a := range told {
		if _, err := m.Admin.Task(t.Context(), control.TaskRef{Agent: "agent", ID: a.task}, true); err != nil {
			t.Errorf("the task %s that the caller of %s was told of is not indexed: %v", a.task, id, err)
		}
	}
	if reply, _ := conn.Do(t.Context(), a2a.SendMessage, parleytest.Message("after", "x")); reply.Err != nil {
		t.Errorf("the next run does not serve: %v", reply.Err)
	}
}

// TestSecondInstance is refused, says who has the directory, and leaves the
// first alone.
func TestSecondInstance(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	cfg := config.Default()
	cfg.Data, cfg.Listen, cfg.GRPCListen, cfg.OpsListen = m.Config.Data, "127.0.0.1:0", "127.0.0.1:0", ""
	var said strings.Builder
	_, err := app.Open(t.Context(), cfg, app.Options{LogTo: &said})
	if said.Len() > 0 {
		t.Errorf("a start that failed says more than its error: %s", &said)
	}
	if parley.KindOf(err) != parley.Conflict {
		t.Fatalf("a second instance got %v, want a conflict", err)
	}
	mustSay(t, parley.PublicMessage(err), m.Config.Data, "in use by process", "--data", "comes from: default")
	if _, err := m.Admin.Status(t.Context()); err != nil {
		t.Errorf("the first instance no longer answers: %v", err)
	}
}

// TestCorruptDatabase is refused by name, with the way back, and not touched.
func TestCorruptDatabase(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	m.Agent("agent")
	m.Stop()
	files, err := filepath.Glob(filepath.Join(m.Config.Data, "*.db"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for what, damage := range map[string]func([]byte){
		"the header": func(b []byte) { copy(b, "this was a database") },
		"the schema": func(b []byte) { clear(b[100:4096]) },
	} {
		t.Run(what, func(t *testing.T) {
			broken := append([]byte(nil), whole...)
			damage(broken)
			if err := os.WriteFile(files[0], broken, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := app.Open(t.Context(), m.Config, app.Options{})
			if parley.KindOf(err) != parley.Unavailable {
				t.Fatalf("got %v, want a refusal", err)
			}
			mustSay(t, parley.PublicMessage(err), files[0], "damaged", "put a copy of the file back")
			if now, err := os.ReadFile(files[0]); err != nil || string(now) != string(broken) {
				t.Errorf("the damaged file was changed (%v)", err)
			}
		})
	}
}

func mustSay(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !containsFold(text, w) {
			t.Errorf("%q does not say %q", text, w)
		}
	}
}

// TestTerminate: SIGTERM lets what is under way finish, ends with status 0 and
// takes the ready file away.
func TestTerminate(t *testing.T) {
	dir := parleytest.Dir(t)
	p := startProcess(t, dir)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the process ended with %v", err)
	}
	if _, err := os.Stat(readyFile(dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the ready file is still there (%v)", err)
	}
}
