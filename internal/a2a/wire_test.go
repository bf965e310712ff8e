package a2a

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the expected answers of the wire transcripts")

// TestWire plays the transcripts in testdata/wire against the echo agent. A
// transcript holds pairs of files: NAME.request, an HTTP request as it goes over
// the wire, and NAME.response, the status, the headers of interest and the body
// that must come back. Times are masked. -update rewrites the responses.
func TestWire(t *testing.T) {
	files, err := filepath.Glob("testdata/wire/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			opt := ServerOptions{StrictVersion: bytes.Contains(archive.Comment, []byte("option: strict"))}
			if bytes.Contains(archive.Comment, []byte("option: small")) {
				opt.Limits.MaxBytes = 200
			}
			server := &Server{Handler: HandlerFunc(echoAgent), Options: opt, Card: func(*http.Request) ([]byte, error) { return []byte(`{"name":"echo"}`), nil }}
			changed := playTranscript(t, archive, startServer(t, server))
			if changed && *update {
				if err := os.WriteFile(file, txtar.Format(archive), 0o666); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func playTranscript(t *testing.T, archive *txtar.Archive, url string) (changed bool) {
	for i := 0; i < len(archive.Files); i++ {
		name, ok := strings.CutSuffix(archive.Files[i].Name, ".request")
		if !ok {
			continue
		}
		got := playRequest(t, url, string(archive.Files[i].Data))
		j := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == name+".response" })
		if j < 0 {
			if !*update {
				t.Errorf("%s has no response", name)
				continue
			}
			j = i + 1
			archive.Files = slices.Insert(archive.Files, j, txtar.File{Name: name + ".response"})
		}
		if want := string(archive.Files[j].Data); got != want {
			changed = true
			archive.Files[j].Data = []byte(got)
			if !*update {
				t.Errorf("%s\ngot\n%s\nwant\n%s", name, got, want)
			}
		}
	}
	return changed
}

// playRequest sends one request of a transcript and writes the answer down.
func playRequest(t *testing.T, url, text string) string {
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	verb, path, ok := strings.Cut(lines[0], " ")
	if !ok {
		t.Fatalf("bad request line %q", lines[0])
	}
	body = strings.TrimSuffix(body, "\n")
	req, err := http.NewRequest(verb, url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ":")
		req.Header.Add(name, strings.TrimSpace(value))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n", resp.StatusCode)
	for _, name := range []string{"Content-Type", "Cache-Control", "Allow", "Retry-After", "WWW-Authenticate", "ETag"} {
		if v := resp.Header.Get(name); v != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, v)
		}
	}
	b.WriteString("\n")
	b.WriteString(maskTime(string(data)))
	return strings.TrimRight(b.String(), "\n") + "\n"
}
