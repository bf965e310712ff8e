package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/interop"
)

// demoTime bounds a run of the demo; a cold build on a busy machine is most of
// it.
const demoTime = 3 * time.Minute

// A line per call: caller → agent, spoken → spoken to, outcome, milliseconds,
// call id.
var callLine = regexp.MustCompile(`(?m)^ *(?:└ )?(\S+) +→ (\S+) +(JSONRPC|HTTP\+JSON) +→ (JSONRPC|HTTP\+JSON) +(\S+) +\d+\.\d  ([0-9a-f-]{36})$`)

// A command to type: what is indented by two below its comment.
var command = regexp.MustCompile(`(?m)^  # .*\n  (.+)$`)

// The directory that the demo leaves.
var leftDir = regexp.MustCompile(`(?m) records are in (\S*/parley-demo-\d+)$`)

// TestDemo runs the program as make demo does, reads a line per call in what it
// prints, and types the commands that it ends with.
func TestDemo(t *testing.T) {
	bin := t.TempDir()
	peers, err := interop.Install(t.Context(), bin)
	if err != nil {
		t.Skipf("the SDKs of the sample agents cannot be installed here: %v", err)
	}
	parley, err := peers.BuildParley(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	demo := filepath.Join(bin, "demo")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", demo, ".").CombinedOutput(); err != nil {
		t.Fatalf("build the demo: %v\n%s", err, out)
	}

	out := runDemo(t, demo, "--bin", bin, "--parley", parley)

	if strings.Contains(out, "\x1b") {
		t.Error("colours or cursor moves although the output is no terminal")
	}
	calls := callLine.FindAllStringSubmatch(out, -1)
	var told []string
	for _, c := range calls {
		told = append(told, strings.Join(c[1:6], " "))
	}
	want := []string{
		"js-client python-agent JSONRPC HTTP+JSON ok",
		"python-client go-agent HTTP+JSON JSONRPC ok",
		"go-client js-agent JSONRPC JSONRPC ok",
		"go-client js-agent HTTP+JSON JSONRPC agent_error",
		"python-client js-agent JSONRPC JSONRPC ok",
		"python-client js-agent JSONRPC JSONRPC ok",
		"python-client js-agent JSONRPC JSONRPC ok",
		"python-client js-agent JSONRPC JSONRPC ok",
		"js-client go-agent JSONRPC JSONRPC ok",
		"go-agent python-agent JSONRPC HTTP+JSON ok",
		"python-agent js-agent JSONRPC JSONRPC ok",
	}
	if got := strings.Join(told, "\n"); got != strings.Join(want, "\n") {
		t.Fatalf("the calls are\n%s\nwant\n%s\nin\n%s", got, strings.Join(want, "\n"), out)
	}
	typeCommands(t, out, calls)
}

func runDemo(t *testing.T, demo string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), demoTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, demo, args...)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("demo: %v\n%s\n%s", err, complaints.String(), out.String())
	}
	left := leftDir.FindStringSubmatch(out.String())
	if left == nil {
		t.Fatalf("no directory with the records in\n%s", out.String())
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(left[1]); err != nil {
			t.Error(err)
		}
	})
	return out.String()
}

// typeCommands runs the commands that the demo printed in one shell, as
// somebody would who pasted them.
func typeCommands(t *testing.T, out string, calls [][]string) {
	t.Helper()
	typed := command.FindAllStringSubmatch(out, -1)
	if len(typed) != 3 {
		t.Fatalf("%d commands to look further, want 3 in\n%s", len(typed), out)
	}
	script := "set -e\ntrap 'kill $! && wait' EXIT\n"
	for _, c := range typed {
		script += c[1] + "\n"
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	cmd.WaitDelay = 10 * time.Second
	shown, err := cmd.Output()
	if err != nil {
		t.Fatalf("the commands: %v\n%s%s", err, shown, complaints.String())
	}
	for _, c := range calls {
		if !strings.Contains(string(shown), c[6]) {
			t.Errorf("call %s is not in what the commands show:\n%s", c[6], shown)
		}
	}
}
