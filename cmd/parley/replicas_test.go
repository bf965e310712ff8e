package main

import (
	"fmt"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/storetest/pgtest"
)

// block is a piece of shell on a page.
var block = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// pageTime bounds the commands of a page.
const pageTime = 2 * time.Minute

// TestReplicasPage runs the commands of docs/replicas.md, one after the other in
// one shell, with addresses that are free here.
func TestReplicasPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/replicas.md")
	if err != nil {
		t.Fatal(err)
	}
	script := "set -eum\n"
	for _, b := range block.FindAllStringSubmatch(string(page), -1) {
		for line := range strings.Lines(b[1]) {
			script += "echo \"+ \"" + quoted(strings.TrimSpace(line)) + "\n" + line
			if negated, ok := strings.CutPrefix(line, "! "); ok { // that one of these succeeds does not end a shell
				script = strings.TrimSuffix(script, line) + "if " + strings.TrimSpace(negated) + "; then exit 1; fi\n"
			}
		}
	}
	database := pgtest.Database(t)
	agent := a2atest.New(a2atest.Options{})
	server := httptest.NewServer(steered(agent))
	t.Cleanup(server.Close)
	agent.SetURL(server.URL)
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	replace := []string{"postgres://parley:secret@127.0.0.1:5432/parley", database, "127.0.0.1:9000", address.Host}
	for _, port := range []int{7400, 7410, 7411, 7412} {
		replace = append(replace, fmt.Sprintf("127.0.0.1:%d", port), freeAddress(t))
	}
	// The first replica's other listeners have their defaults on the page.
	replace = append(replace, "--data one --listen ", "--data one --grpc-listen "+freeAddress(t)+" --ops-listen "+freeAddress(t)+" --listen ")
	script = replaceEach(script, replace)

	dir, err := os.MkdirTemp("", "parley")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cmd := exec.Command("timeout", "--kill-after=5", fmt.Sprint(pageTime.Seconds()), "bash", "-c", script)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("the commands of the page end with %v:\n%s", err, out)
	}
	for _, said := range []string{"through the second", "nothing is lost", "counts and hashes agree"} {
		if !strings.Contains(string(out), said) {
			t.Errorf("the commands do not print %q:\n%s", said, out)
		}
	}
}

// replaceEach replaces pairs one after the other: a later one may be inside an
// earlier one's result.
func replaceEach(text string, pairs []string) string {
	for i := 0; i < len(pairs); i += 2 {
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}

// quoted is a word of the shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}
