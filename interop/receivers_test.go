package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a/a2atest"
)

// deliveryTime bounds the wait for a delivery, and a receiver's run.
const deliveryTime = time.Minute

// delivery is a push as it came, and what a receiver in another language is shown.
type delivery struct {
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Late    bool              `json:"late"` // is shown ten minutes after it was sent

	want string // the task; empty: it has to be refused
}

// with is a changed copy that has to be refused.
func (d delivery) with(change func(*delivery)) delivery {
	d.Headers, d.want = maps.Clone(d.Headers), ""
	change(&d)
	return d
}

// pushHook collects deliveries.
func pushHook(t *testing.T) (url string, got chan delivery) {
	t.Helper()
	got = make(chan delivery, 64)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		d := delivery{Headers: map[string]string{}, Body: string(body)}
		for name, values := range r.Header {
			d.Headers[name] = values[0]
		}
		got <- d
	}))
	t.Cleanup(server.Close)
	return server.URL + "/hooks/parley?tenant=1", got
}

// pushed sends a message that asks for pushes, and gives the first one.
func pushed(t *testing.T, mesh *Mesh, key, url string, got chan delivery, config map[string]any) delivery {
	t.Helper()
	asked := map[string]any{"url": url}
	maps.Copy(asked, config)
	body, err := json.Marshal(map[string]any{
		"message":       map[string]any{"messageId": fmt.Sprint("tck-complete-task-", time.Now().UnixNano()), "role": "ROLE_USER", "parts": []any{map[string]any{"text": "x"}}},
		"configuration": map[string]any{"taskPushNotificationConfig": asked},
	})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, mesh.Agent("agent")+"message:send", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/a2a+json"}, "A2a-Version": {"1.0"}}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var sent struct{ Task struct{ ID string } }
	if err := json.NewDecoder(resp.Body).Decode(&sent); err != nil || sent.Task.ID == "" {
		t.Fatalf("send: status %d, task %q, %v", resp.StatusCode, sent.Task.ID, err)
	}
	select {
	case d := <-got:
		d.want = sent.Task.ID
		return d
	case <-time.After(deliveryTime):
		t.Fatal("no delivery came")
		return delivery{}
	}
}

// receivers are what drives the programs of docs/push.md: it shows them each
// delivery of a file, and prints the task or nothing.
var receivers = map[SDK]struct{ fence, driver string }{
	Python: {"python", `
import datetime, json, sys
import jwt.api_jwt
class Late(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + datetime.timedelta(minutes=10)
for d in json.load(open(sys.argv[1])):
    jwt.api_jwt.datetime = Late if d["late"] else datetime.datetime
    try:
        print(verify(d["headers"], d["body"].encode()))
    except Exception as e:
        print()
        print(repr(e), file=sys.stderr)
`},
	JavaScript: {"js", `
import { readFileSync } from 'node:fs'
const Clock = Date
class Late extends Clock {
  constructor(...a) { a.length ? super(...a) : super(Clock.now() + 600000) }
  static now() { return Clock.now() + 600000 }
}
for (const d of JSON.parse(readFileSync(process.argv[1], 'utf8'))) {
  globalThis.Date = d.late ? Late : Clock
  const headers = Object.fromEntries(Object.entries(d.headers).map(([k, v]) => [k.toLowerCase(), v]))
  try {
    console.log(await verify(headers, Buffer.from(d.body)))
  } catch (e) {
    console.log()
    console.error(String(e))
  }
}
`},
}

// show runs a program on deliveries, and gives what it printed for each.
func show(t *testing.T, sdk SDK, program string, deliveries []delivery) []string {
	t.Helper()
	raw, err := json.Marshal(deliveries)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "deliveries.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deliveryTime)
	defer cancel()
	folder := filepath.Join(peers(t).root, "interop", string(sdk))
	cmd := exec.CommandContext(ctx, "node", "--input-type=module", "--eval", program, file)
	if sdk == Python {
		cmd = exec.CommandContext(ctx, filepath.Join(folder, ".venv", "bin", "python"), "-c", program, file)
	}
	var stderr tail
	cmd.Dir, cmd.Stderr, cmd.Env = folder, &stderr, append(os.Environ(), "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	t.Logf("refusals: %s", &stderr)
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(deliveries) {
		t.Fatalf("%d lines for %d deliveries: %q", len(lines), len(deliveries), out)
	}
	return lines
}

// TestReceiversOfPage: the programs of docs/push.md take what the mesh delivers,
// and nothing else.
func TestReceiversOfPage(t *testing.T) {
	mesh := startMesh(t)
	_, agent := a2atest.Start(t, a2atest.Options{})
	addAgent(t, mesh, "agent", agent)
	key := newCaller(t, mesh, "caller")
	url, got := pushHook(t)
	elsewhere, there := pushHook(t)
	page, err := os.ReadFile("../docs/push.md")
	if err != nil {
		t.Fatal(err)
	}
	for sdk, r := range receivers {
		t.Run(string(sdk), func(t *testing.T) {
			block := regexp.MustCompile("(?s)```" + r.fence + "\n(.*?)```").FindSubmatch(page)
			if block == nil {
				t.Fatalf("docs/push.md shows no program in %s", r.fence)
			}
			program := strings.NewReplacer("https://mesh.example.com", strings.TrimSuffix(mesh.URL, "/"), "https://app.example.com/hooks/parley", url).Replace(string(block[1]))
			good := pushed(t, mesh, key, url, got, nil)
			own := pushed(t, mesh, key, url, got, map[string]any{"authentication": map[string]any{"scheme": "Basic", "credentials": "dTpw"}})
			if own.Headers["Authorization"] != "Basic dTpw" || own.Headers["Parley-Push-Token"] == "" {
				t.Errorf("headers %v", own.Headers)
			}
			foreign := pushed(t, mesh, key, elsewhere, there, nil)
			foreign.want = ""
			fresh := func() delivery { return pushed(t, mesh, key, url, got, nil) }
			cases := []delivery{
				good, own,
				good.with(func(*delivery) {}), // a replay
				fresh().with(func(d *delivery) { d.Body = strings.Replace(d.Body, "COMPLETED", "FAILED", 1) }),
				fresh().with(func(d *delivery) { d.Late = true }),
				foreign,
				fresh().with(func(d *delivery) {
					token := d.Headers["Authorization"]
					d.Headers["Authorization"] = token[:len(token)-8] + "AAAAAAAA"
				}),
				fresh().with(func(d *delivery) {
					parts := strings.Split(strings.TrimPrefix(d.Headers["Authorization"], "Bearer "), ".")
					d.Headers["Authorization"] = "Bearer eyJhbGciOiJub25lIn0." + parts[1] + "." // {"alg":"none"}
				}),
				fresh().with(func(d *delivery) { d.Headers["Authorization"] = "Bearer x" }),
			}
			for i, said := range show(t, sdk, program+r.driver, cases) {
				if said != cases[i].want {
					t.Errorf("delivery %d: the program says %q, want %q", i, said, cases[i].want)
				}
			}
		})
	}
}

// TestStockWebhookLibrary: the JavaScript library for Standard Webhooks takes what
// is signed with the config's token.
func TestStockWebhookLibrary(t *testing.T) {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	mesh := startMesh(t)
	_, agent := a2atest.Start(t, a2atest.Options{})
	addAgent(t, mesh, "agent", agent)
	url, got := pushHook(t)
	good := pushed(t, mesh, newCaller(t, mesh, "caller"), url, got, map[string]any{"token": secret})
	program := `
import { Webhook } from 'standardwebhooks'
const stock = new Webhook('` + secret + `')
const verify = (headers, body) => stock.verify(body.toString(), headers).task.id
` + receivers[JavaScript].driver
	cases := []delivery{
		good,
		good.with(func(d *delivery) { d.Body = strings.Replace(d.Body, "COMPLETED", "FAILED", 1) }),
		good.with(func(d *delivery) { d.Headers["Webhook-Id"] += "0" }),
		good.with(func(d *delivery) { d.Late = true }),
	}
	for i, said := range show(t, JavaScript, program, cases) {
		if said != cases[i].want {
			t.Errorf("delivery %d: the library says %q, want %q", i, said, cases[i].want)
		}
	}
}
