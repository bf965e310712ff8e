package a2atest

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/tools/txtar"

	"github.com/parley-mesh/parley/internal/a2a"
)

var update = flag.Bool("update", false, "write the responses of the transcripts from this run")

// TestTranscripts plays the conversations in testdata. A transcript begins with
// what it shows and the rows of the conformance page it belongs to; then come
//
//	NAME.request   an HTTP request
//	NAME.response  status, headers of interest and body of its answer
//	NAME.drive     TASK STATE TEXT: what happens at the agent meanwhile
//
// JSON in a response is broken into lines for reading and compared without white
// space. ${name} stands for an id or time the agent makes: any text where it first
// occurs, that same text afterwards. -update writes the responses.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d transcripts, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !regexp.MustCompile(`(?m)^Rows? \d`).Match(archive.Comment) {
				t.Error("the transcript names no row")
			}
			p := &player{t: t, names: map[string]string{}, values: map[string]string{}}
			p.agent, p.url = Start(t, optionsOf(t, string(archive.Comment)))
			p.play(archive)
			if *update && !t.Failed() {
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// optionsOf reads lines such as "agent: no-streaming" of a transcript's comment.
func optionsOf(t *testing.T, comment string) Options {
	var opt Options
	for line := range strings.Lines(comment) {
		word, ok := strings.CutPrefix(strings.TrimSpace(line), "agent: ")
		switch {
		case !ok:
		case word == "no-streaming":
			opt.NoStreaming = true
		case word == "extended-missing":
			opt.Extended = ExtendedMissing
		case word == "extension-required":
			opt.Extensions = []a2a.AgentExtension{{URI: "https://ext.example.com/shout/v1", Required: true}}
		default:
			t.Fatalf("there is no agent %q", word)
		}
	}
	return opt
}

// player plays one transcript.
type player struct {
	t      *testing.T
	agent  *Agent
	url    string
	resp   *http.Response
	names  map[string]string // of the values seen so far
	values map[string]string // by name
}

func (p *player) play(archive *txtar.Archive) {
	for i := range archive.Files {
		f := &archive.Files[i]
		text := string(f.Data)
		switch {
		case strings.HasSuffix(f.Name, ".request"):
			p.request(p.fill(text))
		case strings.HasSuffix(f.Name, ".drive"):
			p.drive(p.fill(text))
		case strings.HasSuffix(f.Name, ".response"):
			got := p.response()
			if *update {
				f.Data = []byte(p.readable(got))
			} else {
				p.compare(f.Name, got, text)
			}
		default:
			p.t.Fatalf("%s: a name ends in .request, .drive or .response", f.Name)
		}
	}
}

var variable = regexp.MustCompile(`\$\{(\w+)\}`)

// fill puts in what is known by name.
func (p *player) fill(text string) string {
	return variable.ReplaceAllStringFunc(text, func(v string) string {
		value, ok := p.values[v[2:len(v)-1]]
		if !ok {
			p.t.Fatalf("%s was not seen before", v)
		}
		return value
	})
}

func (p *player) request(text string) {
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	verb, path, _ := strings.Cut(lines[0], " ")
	req, err := http.NewRequest(verb, p.url+path, strings.NewReader(strings.TrimSpace(body)))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ":")
		req.Header.Add(name, strings.TrimSpace(value))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { resp.Body.Close() })
	p.resp = resp
}

func (p *player) drive(text string) {
	words := strings.SplitN(strings.TrimSpace(text), " ", 3)
	if len(words) < 3 {
		p.t.Fatalf("drive %q: write TASK STATE TEXT", text)
	}
	if err := p.agent.SetStatus(words[0], a2a.TaskState(words[1]), words[2]); err != nil {
		p.t.Fatal(err)
	}
}

// response writes the answer down: status, headers of interest, and the body with
// every JSON value on a line of its own.
func (p *player) response() string {
	body, err := io.ReadAll(p.resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n", p.resp.StatusCode)
	for _, name := range []string{"Content-Type", "A2A-Extensions", "WWW-Authenticate", "Retry-After"} {
		if v := p.resp.Header.Get(name); v != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, v)
		}
	}
	b.WriteString("\n" + strings.TrimSpace(string(body)) + "\n")
	return b.String()
}

// compare matches an answer with what the transcript expects of it.
func (p *player) compare(name, got, want string) {
	p.t.Helper()
	got, want = dense(got), dense(want)
	var pattern strings.Builder
	var captured []string
	rest := want
	for {
		at := variable.FindStringSubmatchIndex(rest)
		if at == nil {
			break
		}
		pattern.WriteString(regexp.QuoteMeta(rest[:at[0]]))
		if v := rest[at[2]:at[3]]; p.values[v] != "" {
			pattern.WriteString(regexp.QuoteMeta(p.values[v]))
		} else {
			// One seen for the first time in this very answer may stand in it twice.
			captured = append(captured, v)
			pattern.WriteString(`([^"\s]+)`)
		}
		rest = rest[at[1]:]
	}
	pattern.WriteString(regexp.QuoteMeta(rest))
	found := regexp.MustCompile("^" + pattern.String() + "$").FindStringSubmatch(got)
	if found == nil {
		p.t.Fatalf("%s\ngot\n%s\nwant\n%s", name, got, want)
	}
	for i, v := range captured {
		if known := p.values[v]; known != "" && known != found[i+1] {
			p.t.Errorf("%s: ${%s} is %s and then %s", name, v, known, found[i+1])
		}
		p.values[v] = found[i+1]
	}
}

// dense takes the line breaks out of the JSON of a response.
func dense(text string) string {
	head, body, _ := strings.Cut(text, "\n\n")
	var b strings.Builder
	b.WriteString(head + "\n")
	for _, event := range strings.Split(strings.TrimSpace(body), "\n\n") {
		lead, value := cutLead(event)
		raw := jsontext.Value(value)
		if raw.Compact() == nil {
			value = string(raw)
		}
		b.WriteString("\n" + lead + value + "\n")
	}
	return b.String()
}

// cutLead parts the field names of a server-sent event from its JSON.
func cutLead(event string) (lead, value string) {
	if i := strings.Index(event, "data: "); i == 0 || i > 0 && event[i-1] == '\n' {
		return event[:i+len("data: ")], event[i+len("data: "):]
	}
	return "", event
}

var made = regexp.MustCompile(`"(\w+)":"([0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[0-9:.]+Z|[A-Za-z0-9_-]{80,})"`)

// readable names what the agent made and breaks the JSON into lines.
func (p *player) readable(text string) string {
	text = made.ReplaceAllStringFunc(text, func(pair string) string {
		m := made.FindStringSubmatch(pair)
		return `"` + m[1] + `":"${` + p.name(m[1], m[2]) + `}"`
	})
	head, body, _ := strings.Cut(text, "\n\n")
	var b strings.Builder
	b.WriteString(head + "\n")
	for _, event := range strings.Split(strings.TrimSpace(body), "\n\n") {
		lead, value := cutLead(event)
		b.WriteString("\n" + lead + LayOut(jsontext.Value(value)) + "\n")
	}
	return b.String()
}

// name gives a value the name of its member, with a number from the second on.
func (p *player) name(member, value string) string {
	if known := p.names[value]; known != "" {
		return known
	}
	base := map[string]string{"id": "task", "taskId": "task", "contextId": "context", "messageId": "message", "artifactId": "artifact", "timestamp": "time", "nextPageToken": "token"}[member]
	name := base
	for n := 2; p.values[name] != ""; n++ {
		name = fmt.Sprintf("%s%d", base, n)
	}
	p.names[value], p.values[name] = name, value
	return name
}
