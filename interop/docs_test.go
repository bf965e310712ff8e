package interop

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the programs into the pages of docs/sdk")

// codeMark stands above a program in a page and names its file, and in it the
// part between "docs: PART" and "docs: end" if not all is shown.
var codeMark = regexp.MustCompile("(?m)^<!-- code: (\\S+)( [^>]+?)? -->\n(?:\n```\\w+\n(?s:.*?)\n```\n)?")

var languages = map[string]string{".go": "go", ".js": "js", ".py": "python"}

// TestDocs holds the programs in docs/sdk equal to the files that the other
// tests run.
func TestDocs(t *testing.T) {
	pages, err := filepath.Glob("../docs/sdk/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages in docs/sdk (%v)", err)
	}
	programs := 0
	for _, page := range pages {
		have, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		want := codeMark.ReplaceAllStringFunc(string(have), func(mark string) string {
			programs++
			named := codeMark.FindStringSubmatch(mark)
			return shown(t, named[1], strings.TrimSpace(named[2]))
		})
		if diff := cmp.Diff(want, string(have)); diff != "" && !*update {
			t.Errorf("%s: differs from the programs (-want +got), go test ./interop -run TestDocs -update:\n%s", page, diff)
		}
		if *update {
			if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if want := 9; programs != want {
		t.Errorf("the pages show %d programs, want %d: calling, being called and both, per SDK", programs, want)
	}
}

// shown is a program as a page shows it, with its mark.
func shown(t *testing.T, file, part string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", file))
	if err != nil {
		t.Fatal(err)
	}
	code, mark := string(text), file
	if part != "" {
		mark += " " + part
		_, after, found := strings.Cut(code, "docs: "+part+"\n")
		inside, _, ended := strings.Cut(after, "docs: end\n")
		if !found || !ended {
			t.Fatalf("%s: no part %q", file, part)
		}
		// What is left of the end mark's line is its comment sign.
		code = inside[:strings.LastIndex(inside, "\n")+1]
	}
	return fmt.Sprintf("<!-- code: %s -->\n\n```%s\n%s\n```\n", mark, languages[filepath.Ext(file)], strings.TrimSpace(code))
}

// TestExamples runs the programs of docs/sdk with each other.
func TestExamples(t *testing.T) {
	p := peers(t)
	for _, program := range []string{"call", "hello"} {
		if err := command(t.Context(), p.root, "go", "build", "-o", filepath.Join(p.bin, "go-"+program), "./interop/go/"+program); err != nil {
			t.Fatal(err)
		}
	}
	for _, agent := range []SDK{Go, JavaScript, Python} {
		address := startHello(t, p, agent)
		for _, client := range []SDK{Go, JavaScript, Python} {
			t.Run(string(client)+"-"+string(agent), func(t *testing.T) {
				program, args := p.program(client, "call")
				out, err := exec.CommandContext(t.Context(), program, append(args, address, "good morning")...).CombinedOutput()
				if want := "message: hello, you said: good morning\n"; err != nil || string(out) != want {
					t.Errorf("printed %q (%v), want %q", out, err, want)
				}
			})
		}
	}
}

// startHello starts the small agent, which has no way to say that it serves,
// and waits until it does.
func startHello(t *testing.T, p *Peers, sdk SDK) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	program, args := p.program(sdk, "hello")
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	process, err := launch(ctx, "hello", nil, program, append(args, address)...)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel() // it is no program that ends cleanly
		<-process.ended
	})
	deadline, done := context.WithTimeout(t.Context(), startTime)
	defer done()
	for {
		request, err := http.NewRequestWithContext(deadline, http.MethodGet, "http://"+address+"/.well-known/agent-card.json", nil)
		if err != nil {
			t.Fatal(err)
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			response.Body.Close()
			return "http://" + address + "/"
		}
		select {
		case <-process.ended:
			t.Fatalf("hello ended: %v%s", process.err, process.said())
		case <-deadline.Done():
			t.Fatalf("hello does not serve: %v%s", deadline.Err(), process.said())
		case <-time.After(readyPoll):
		}
	}
}
