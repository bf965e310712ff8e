package security_test

import (
	"context"
	"crypto/rand"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/app"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/netguardtest"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// hostileHooks are where a caller would have the mesh post to, beside hostile.
// What judgedAtDial says of a URL is true of all the others: it is refused when
// it is registered.
var hostileHooks = slices.Compact(slices.Sorted(slices.Values(slices.Concat(hostile, slices.Collect(maps.Keys(judgedAtDial)), []string{
	"https://localhost/", "https://LOCALHOST./", "https://a.localhost/", "https://127.0.0.1./", "https://[::1]:8443/", "https://10.1.2.3:8443/",
	"https://[::ffff:10.0.0.1]/", "https://[::ffff:a00:1]/", "https://[fe80::1%25eth0]/", "https://[fe80::1%251]/", "https://[64:ff9b::a9fe:a9fe]/",
	"https://[64:ff9b::10.0.0.1]/", "https://[::127.0.0.1]/", "https://[2001:db8::1]/", "https://[2002:a00:1::]/", "https://[2001:0:7f00:1::]/",
	"https://2130706433/", "https://0x7f000001/", "https://0x7f.1/", "https://0177.0.0.1/", "https://017700000001/", "https://127.1/", "https://127.1./", "https://0/",
	"https://metadata.google.internal/", "https://metadata/", "https://169.254.169.254./latest/", "https://168.63.129.16/", "https://224.0.0.1/", "https://255.255.255.255/",
	"https://public.example.com@127.0.0.1/", "https://127.0.0.1#@public.example.com/", `https://public.example.com\@127.0.0.1/`, "https://:@public.example.com/",
	"https://ⓛocalhost/", "https://127。0。0。1/", "https://１２７.0.0.1/", "https://bücher.example.com/", "https://%6c%6fcalhost/", "https://127.0.0.1%2f@public.example.com/",
	"https:///hook", "//127.0.0.1/", "https://127.0.0.1:0/", "https://[::1", "https://public.example.com:99999/", "https://public.example.com/\r\nHost: 127.0.0.1", " https://127.0.0.1/",
}))))

// judgedAtDial are names that only their addresses give away, and what is not to
// be connected to for each.
var judgedAtDial = map[string]string{
	"https://metadata.example.com/":             "169.254.169.254:443",
	"https://metadata.example.com./":            "169.254.169.254:443",
	"https://rebind.example.com/":               "10.0.0.7:443",
	"https://later.example.com/":                "127.0.0.1:443", // is public when it is first asked for
	"https://mixed.example.com/":                "10.0.0.8:443",
	"https://six.example.com:8443/":             "10.0.0.9:8443",
	"https://translated.example.com/":           "[64:ff9b::a9fe:a9fe]:443",
	"https://xn--internal-private.example.com/": "10.0.0.10:443",
	"http://public.example.com/":                "93.184.216.34:80", // public, and plain http
	"https://public.example.com:22/":            "93.184.216.34:22", // public, and a port of another service
	"http://203.0.113.20/redirect":              "169.254.169.254:80",
}

// pushWays are the ways to ask for pushes.
var pushWays = map[string]func(target, held string) (a2a.Method, any){
	"create": func(target, held string) (a2a.Method, any) {
		// In 0.3 a task has one config without an id.
		return a2a.CreatePushConfig, a2a.TaskPushNotificationConfig{TaskID: held, ID: rand.Text(), URL: target}
	},
	"send":   func(target, _ string) (a2a.Method, any) { return a2a.SendMessage, inlinePush(target) },
	"stream": func(target, _ string) (a2a.Method, any) { return a2a.SendStreamingMessage, inlinePush(target) },
}

func inlinePush(target string) a2a.SendMessageRequest {
	in := parleytest.Message("", "x")
	in.Configuration = &a2a.SendMessageConfiguration{PushConfig: &a2a.TaskPushNotificationConfig{URL: target}}
	return in
}

// TestPushTargets: whatever address a caller has its pushes sent to, by whichever
// way and in whichever version, the mesh connects to nothing that its operator has
// not opened: it refuses the address, or each dial.
func TestPushTargets(t *testing.T) {
	const agentAt, hookAt, public = "203.0.113.10:80", "203.0.113.20:80", "93.184.216.34:443"
	var dialer netguardtest.Recorder
	dialer.Resolve("localhost", "127.0.0.1")
	dialer.Resolve("metadata.google.internal", "169.254.169.254")
	dialer.Resolve("metadata.example.com", "169.254.169.254")
	dialer.Resolve("rebind.example.com", "10.0.0.7")
	dialer.Resolve("later.example.com", "93.184.216.34")
	dialer.Resolve("later.example.com", "127.0.0.1")
	dialer.Resolve("mixed.example.com", "10.0.0.8", "::1")
	dialer.Resolve("six.example.com", "::ffff:10.0.0.9")
	dialer.Resolve("translated.example.com", "64:ff9b::a9fe:a9fe")
	dialer.Resolve("xn--internal-private.example.com", "10.0.0.10")
	dialer.Resolve("public.example.com", "93.184.216.34")
	for _, odd := range []string{"2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "127.1", "0"} {
		dialer.Spell(odd, "127.0.0.1")
	}
	redirects := httptest.NewServer(http.RedirectHandler("http://169.254.169.254/latest/", http.StatusTemporaryRedirect))
	defer redirects.Close()
	dialer.StandIn(hookAt, redirects.Listener.Addr())
	agent := parleytest.NewAgent(t)
	dialer.StandIn(agentAt, listenerOf(t, agent))
	agent.SetCard(parleytest.Card("http://" + agentAt + "/"))
	var over atomic.Bool

	m := parleytest.Start(t, parleytest.Options{
		Configure: func(c *config.Config) {
			c.Environment = parley.Prod // in dev, loopback is open
			allow(t, c, "203.0.113.0/24")
			c.Push.RetryFirst, c.Push.RetryMax = 50*time.Millisecond, 50*time.Millisecond
			c.Push.PerHost, c.Push.PerTask = 64, 1000
			c.Watch.First, c.Watch.Max = 50*time.Millisecond, 50*time.Millisecond
		},
		App: app.Options{NewDialer: dialer.NewDialer},
	})
	m.Add(control.NewAgent{Name: "worker", URL: "http://" + agentAt + "/"})
	agent.Answer(pushedTasks(&over))
	key := m.Key("mallory", parley.DefaultOwner)
	if reply, _ := m.Caller("worker", a2a.JSONRPC, key).Do(t.Context(), a2a.SendMessage, parleytest.Message(heldMessage, "wait")); reply.Err != nil {
		t.Fatal(reply.Err)
	}

	wanted := 0
	for _, target := range hostileHooks {
		_, judged := judgedAtDial[target]
		for _, binding := range []a2a.Binding{a2a.JSONRPC, a2a.HTTPJSON, a2a.GRPC} {
			for _, version := range []a2a.Version{a2a.V10, a2a.V03} {
				for way, ask := range pushWays {
					c := m.Caller("worker", binding, key).With("parley-agent", "worker") // gRPC of 0.3 has no other place for it
					c.Endpoint.Version = version
					method, params := ask(target, "t-"+heldMessage)
					reply, _ := c.Do(t.Context(), method, params)
					drain(t, reply)
					if judged {
						wanted++
					}
					switch {
					case judged && reply.Err != nil:
						t.Errorf("%s of %q over %s %s: %v, want that the dial judges it", way, target, binding, version, reply.Err)
					case !judged && (reply.Err == nil || reply.Err.Reason != a2a.ReasonInvalidParams):
						t.Errorf("%s of %q over %s %s: %v, want that it is refused", way, target, binding, version, reply.Err)
					}
				}
			}
		}
	}
	over.Store(true)
	m.Await("every address was tried twice", func() bool {
		pushes := m.Pushes()
		for _, p := range pushes {
			if p.DeliveredAt != nil {
				t.Fatalf("delivered to %s", p.URL)
			}
			if p.Attempts < 2 {
				return false
			}
		}
		return len(pushes) == wanted
	})
	for _, to := range dialer.Permitted() {
		if !slices.Contains([]string{agentAt, hookAt, public}, to.String()) {
			t.Errorf("the mesh connected to %s", to)
		}
	}
	refused := map[string]bool{}
	for _, to := range dialer.Refused() {
		refused[to.String()] = true
	}
	for target, inside := range judgedAtDial {
		if !refused[inside] && !strings.HasSuffix(target, "/redirect") { // which is not even tried
			t.Errorf("%s: the dial to %s was not refused: the recorder is not in place; refused were %v", target, inside, refused)
		}
	}
	t.Logf("%d addresses, %d judged at the dial", len(hostileHooks), len(judgedAtDial))
}

// heldMessage begins the task that goes on until a test says that it is over.
const heldMessage = "held"

// pushedTasks is an agent whose tasks are completed at once, but for one.
func pushedTasks(over *atomic.Bool) func(context.Context, *a2a.Request) *a2a.Reply {
	return func(_ context.Context, q *a2a.Request) *a2a.Reply {
		id := q.Facts.TaskID
		if id == "" {
			id = "t-" + q.Facts.MessageID
		}
		task := &a2a.Task{ID: id, ContextID: "c-" + id, Status: a2a.TaskStatus{State: a2a.StateCompleted}}
		if id == "t-"+heldMessage && !over.Load() {
			task.Status.State = a2a.StateWorking
		}
		switch q.Method {
		case a2a.SendStreamingMessage:
			frames := make(chan a2a.Frame, 1)
			frames <- a2a.StreamFrame(a2a.StreamResponse{Task: task})
			close(frames)
			return &a2a.Reply{Stream: a2a.NewChanStream(frames)}
		case a2a.SendMessage:
			return a2a.Answer(q.Method, a2a.SendMessageResponse{Task: task})
		}
		return a2a.Answer(q.Method, task)
	}
}

// drain reads a stream to its end; an error in it becomes the reply's.
func drain(t *testing.T, reply *a2a.Reply) {
	t.Helper()
	if reply.Stream == nil {
		return
	}
	defer reply.Stream.Close()
	for {
		frame, err := reply.Stream.Next(t.Context())
		if err != nil {
			return
		}
		if frame.Err != nil {
			reply.Err = frame.Err
			return
		}
	}
}
