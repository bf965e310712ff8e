package conformance

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/tools/txtar"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
)

// scene is a conversation that is worth reading.
type scene struct {
	name  string
	shows string // one sentence
	rows  string
	agent a2atest.Options
	play  func(t *testing.T, w *world, c *caller)
}

// TestTranscripts plays every scene through a mesh, for callers and agents of the
// same and of another binding, and holds what passed the wire on both sides of
// the mesh against the files in testdata/transcripts. They are there to be read;
// -update writes them, and the index in docs/transcripts.md.
func TestTranscripts(t *testing.T) {
	all := &meshes{t: t}
	wanted := map[string]bool{}
	for _, s := range scenes {
		for _, caller := range []a2a.Binding{a2a.JSONRPC, a2a.HTTPJSON} {
			for _, agent := range []a2a.Binding{a2a.JSONRPC, a2a.HTTPJSON} {
				name := s.file(caller, agent)
				wanted[name] = true
				t.Run(strings.TrimSuffix(name, ".txtar"), func(t *testing.T) { s.check(t, all, caller, agent) })
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(transcripts, "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !wanted[filepath.Base(file)] {
			t.Errorf("%s belongs to no scene: remove it", file)
		}
	}
	checkFile(t, "../../docs/transcripts.md", []byte(transcriptIndex()))
}

const transcripts = "testdata/transcripts"

// words are what bindings are called in names of files.
var words = map[a2a.Binding]string{a2a.JSONRPC: "rpc", a2a.HTTPJSON: "rest"}

func (s scene) file(caller, agent a2a.Binding) string {
	return fmt.Sprintf("%s_%s_to_%s.txtar", s.name, words[caller], words[agent])
}

// check plays the scene and compares what passed.
func (s scene) check(t *testing.T, all *meshes, callerSpeaks, agentSpeaks a2a.Binding) {
	m := all.get(kind{})
	log := &exchanges{}
	opt := s.agent
	opt.Bindings, opt.Credentials = []a2a.Binding{agentSpeaks}, map[string]string{"Bearer " + agentToken: "mesh"}
	agent, at := a2atest.Start(t, opt)
	inner := log.tap(t, "mesh to agent", at)
	agent.SetURL(inner)
	target := m.register(t, agent, inner)
	log.forget() // what the registration asked
	outer := log.tap(t, "caller to mesh", m.public)
	target.URL = outer + strings.TrimPrefix(target.URL, m.public)
	w := &world{target, Side{Caller: callerSpeaks}}
	s.play(t, w, w.as(t, target.Alice))
	archive := &txtar.Archive{Comment: fmt.Appendf(nil, "%s\nThe caller speaks %s, the agent %s. Rows %s.\n", s.shows, callerSpeaks, agentSpeaks, s.rows)}
	known := strings.NewReplacer(target.Alice, "Bearer ALICES-KEY", target.Bob, "Bearer BOBS-KEY", target.Outsider, "Bearer OUTSIDERS-KEY", "Bearer "+agentToken, "Bearer THE-AGENTS-OWN",
		m.grpc, "mesh:7401", outer, "http://mesh", m.public, "http://mesh", inner, "http://agent", at, "http://agent", string(target.Name), "echo")
	names := naming{}
	for i, part := range log.parts() {
		archive.Files = append(archive.Files, txtar.File{Name: fmt.Sprintf("%d %s", i+1, part.title), Data: []byte(names.normal(known.Replace(part.text)))})
	}
	checkFile(t, filepath.Join(transcripts, s.file(callerSpeaks, agentSpeaks)), txtar.Format(archive))
}

// checkFile compares a file with what it should hold, or writes it.
func checkFile(t *testing.T, file string, want []byte) {
	t.Helper()
	if t.Failed() {
		return
	}
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; write it with -update", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from what passed the wire now, which is\n%s", file, want)
	}
}

// exchanges are what passed the taps, in the order it began.
type exchanges struct {
	mu   sync.Mutex
	all  []*part // guarded by mu
	taps sync.WaitGroup
}

// part is one message.
type part struct{ title, text string }

// tap stands before a server and notes what passes.
func (e *exchanges) tap(t *testing.T, way, target string) string {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	from, into, _ := strings.Cut(way, " to ")
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the caller has left
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		request, answer := &part{title: way}, &part{title: into + " to " + from}
		request.text = r.Method + " " + r.URL.RequestURI() + "\n" + headerLines(r.Header) + readable(body)
		e.mu.Lock()
		e.all = append(e.all, request)
		e.mu.Unlock()
		e.taps.Add(1)
		defer e.taps.Done()
		noted := &noting{ResponseWriter: w, begins: func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.all = append(e.all, answer)
		}}
		defer func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			answer.text = fmt.Sprintf("%d %s\n%s%s", noted.status, http.StatusText(noted.status), headerLines(w.Header()), readable(noted.body.Bytes()))
		}()
		proxy.ServeHTTP(noted, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func (e *exchanges) forget() {
	e.taps.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = nil
}

func (e *exchanges) parts() []*part {
	e.taps.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all)
}

// noting is a response writer that keeps what it writes.
type noting struct {
	http.ResponseWriter
	begins func()
	status int
	body   bytes.Buffer
}

func (n *noting) WriteHeader(status int) {
	n.status = status
	n.begins()
	n.ResponseWriter.WriteHeader(status)
}

func (n *noting) Write(p []byte) (int, error) {
	n.body.Write(p)
	return n.ResponseWriter.Write(p)
}
func (n *noting) Unwrap() http.ResponseWriter { return n.ResponseWriter }

// unread are headers that say nothing about the protocol.
var unread = []string{"Accept-Encoding", "Connection", "Content-Length", "Date", "Traceparent", "Tracestate", "User-Agent", "X-Accel-Buffering", "X-Forwarded-For"}

func headerLines(h http.Header) string {
	var b strings.Builder
	var names []string
	for name := range h {
		if !slices.Contains(unread, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(h[name], ", "))
	}
	return b.String()
}

// readable breaks JSON into lines where it is long, also inside of events.
func readable(body []byte) string {
	if len(body) == 0 {
		return ""
	}
	var b strings.Builder
	for event := range strings.SplitSeq(strings.TrimRight(string(body), "\n"), "\n\n") {
		b.WriteByte('\n')
		lead, value := "", event
		if i := strings.Index(event, "data: "); i >= 0 {
			lead, value = event[:i+6], event[i+6:]
		}
		b.WriteString(lead + a2atest.LayOut(jsontext.Value(value)) + "\n")
	}
	return b.String()
}

// naming gives what differs from run to run a name, the same each time it occurs.
type naming map[string]string

var varying = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z|"nextPageToken":\s*"[^"]+"|"pageToken":\s*"[^"]+"|pageToken=[^& \n]+|Etag: "[^"]+"|"protected":\s*"[^"]+"|"signature":\s*"[\w-]{86}"|"mesh":\s*"[0-9a-f]{32}"|"cardSha256":\s*"[0-9a-f]{64}"|id: [0-9a-f]{12}-\d+`)

func (n naming) normal(text string) string {
	return varying.ReplaceAllStringFunc(text, func(found string) string {
		lead, value, kind := "", found, "id"
		switch {
		case strings.HasPrefix(found, "Etag"):
			return `Etag: "ETAG"`
		case strings.HasPrefix(found, `"`) && !strings.Contains(strings.ToLower(found), "pagetoken"):
			name, _, _ := strings.Cut(found[1:], `"`)
			return found[:strings.LastIndex(strings.TrimSuffix(found, `"`), `"`)+1] + strings.ToUpper(name) + `"`
		case strings.HasPrefix(found, "id: "): // of an event: the task's mark and a number
			return "id: TASK" + found[strings.LastIndexByte(found, '-'):]
		case strings.Contains(strings.ToLower(found), "pagetoken"):
			i := strings.LastIndexAny(strings.TrimSuffix(found, `"`), `"=`) + 1
			lead, value, kind = found[:i], strings.TrimSuffix(found[i:], `"`), "token"
			if strings.HasSuffix(found, `"`) {
				return lead + n.name(kind, value) + `"`
			}
		case strings.Contains(found, "T") && strings.HasSuffix(found, "Z"):
			kind = "time"
		}
		return lead + n.name(kind, value)
	})
}

func (n naming) name(kind, value string) string {
	if value, err := url.QueryUnescape(value); err == nil && n[kind+value] != "" {
		return n[kind+value]
	}
	count := 1
	for _, name := range n {
		if strings.HasPrefix(name, strings.ToUpper(kind)) {
			count++
		}
	}
	n[kind+value] = fmt.Sprintf("%s-%d", strings.ToUpper(kind), count)
	return n[kind+value]
}

// transcriptIndex writes docs/transcripts.md.
func transcriptIndex() string {
	var b strings.Builder
	b.WriteString(transcriptHead)
	both := []a2a.Binding{a2a.JSONRPC, a2a.HTTPJSON}
	for _, s := range scenes {
		fmt.Fprintf(&b, "| %s | %s |", s.shows, s.rows)
		for _, caller := range both {
			for _, agent := range both {
				fmt.Fprintf(&b, " [read](../internal/conformance/%s/%s) |", transcripts, s.file(caller, agent))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

const transcriptHead = `# What the mesh says

<!-- Written by make generate from internal/conformance. Do not edit. -->

Each file shows one conversation as it passed the wire on both sides of a mesh: what the caller sent, what the mesh made
of it for the agent, what the agent answered and what the caller got. They are recorded and compared in every run of the
conformance tests. Ids, times and tokens have names in the place of their values, JSON is broken into lines where it is
long, and headers that say nothing of the protocol are left out. Rows are those of [conformance.md](conformance.md).

| | rows | JSON-RPC to JSON-RPC | JSON-RPC to HTTP+JSON | HTTP+JSON to JSON-RPC | HTTP+JSON to HTTP+JSON |
|---|---|---|---|---|---|
`
