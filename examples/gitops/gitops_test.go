// Package gitops_test applies the example to a real mesh with a real agent, as
// docs/apply.md tells it.
package gitops_test

import (
	"bytes"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/cli"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
)

const token = "token-of-billing"

// examplesAddress is the agent's address in the documents.
const examplesAddress = "http://127.0.0.1:9000"

func TestTheExampleIsAppliedAsThePageSays(t *testing.T) {
	agent := a2atest.New(a2atest.Options{Credentials: map[string]string{"Bearer " + token: "mesh"}})
	server := httptest.NewServer(agent)
	t.Cleanup(server.Close)
	agent.SetURL(server.URL)
	dir := documents(t, server.URL)
	m := parleytest.Start(t, parleytest.Options{})
	run := func(want int, args ...string) string {
		t.Helper()
		var out, problems bytes.Buffer
		env := []string{"PARLEY_DATA=" + m.Config.Data, "BILLING_TOKEN=" + token}
		if code := cli.Main(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &problems, Env: env}); code != want {
			t.Fatalf("parley %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), code, want, out.String(), problems.String())
		}
		if strings.Contains(out.String()+problems.String(), token) {
			t.Errorf("parley %s printed the secret", strings.Join(args, " "))
		}
		return out.String()
	}
	page, err := os.ReadFile("../../docs/apply.md")
	if err != nil {
		t.Fatal(err)
	}
	plan := run(0, "apply", "-f", dir, "--dry-run")
	if shown := strings.ReplaceAll(plan, server.URL, examplesAddress); !strings.Contains(string(page), strings.TrimSpace(shown)) {
		t.Errorf("docs/apply.md does not show this plan:\n%s", strings.TrimSpace(shown))
	}
	if applied := run(0, "apply", "-f", dir); !strings.Contains(applied, "applied: 6 created") {
		t.Errorf("applied:\n%s", applied)
	}
	if again := run(0, "apply", "-f", dir, "--prune"); again != "nothing to do: 6 as declared\n" {
		t.Errorf("applied again:\n%s", again)
	}
	run(0, "apply", "-f", dir, "--dry-run", "--exit-code")

	key := m.NewKey(control.NewKey{Principal: "helpdesk"})
	env := []string{"PARLEY_DATA=" + m.Config.Data, "PARLEY_KEY=" + key.Text}
	var out, problems bytes.Buffer
	if code := cli.Main(t.Context(), []string{"send", "billing", "hello"}, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &problems, Env: env}); code != 0 {
		t.Errorf("the helpdesk cannot call billing: %d %s%s", code, out.String(), problems.String())
	}
	calls := m.Calls(control.CallFilter{Agent: parley.AgentName("billing")})
	if len(calls) == 0 || calls[0].Deadline == nil || calls[0].Deadline.Sub(calls[0].Begun).Hours() != 1 {
		t.Errorf("the limit is not in force: %+v", calls)
	}
}

// documents copies the example and puts the agent's real address in.
func documents(t *testing.T, address string) string {
	t.Helper()
	dir := t.TempDir()
	files, err := filepath.Glob("mesh/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(raw), examplesAddress, address)
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(f)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
