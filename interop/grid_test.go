package interop

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/tools/txtar"
)

var (
	wholeMatrix = flag.Bool("matrix", false, "play every cell of the matrix and write docs/interop.md")
	toldFolder  = flag.String("told", "", "with -matrix: folder that keeps what clients were told; what is there is not played again")
	cellPattern = flag.String("cell", "", "with -matrix: only the cells CLIENT-AGENT that this pattern matches, and the page is not written")
)

// clientsAtOnce is how many clients play at a time: they wait more than they work.
const clientsAtOnce = 10

// outcome is what came of a cell: the notes that explain it and what nothing does.
type outcome struct {
	notes []int
	diff  string
}

type attempt struct {
	cell Cell
	way  Way
}

// TestMatrix plays cells of the matrix: a client of one SDK, version and binding
// with an agent of another, through Parley, and alone where they can. What the
// client is told must be what the script says, but for the notes; docs/interop.md
// must have the same outcome. Without -matrix each endpoint is played once as a
// client and once as an agent.
func TestMatrix(t *testing.T) {
	notes, want := readNotes(t), script(t)
	runs := sample()
	if *wholeMatrix {
		runs = everyRun(t)
	}
	found := play(t, notes, want, runs)
	for _, r := range runs {
		if o := found[r]; o.diff != "" {
			t.Errorf("%s, %s with %s (-want +got):\n%s", r.way, r.cell.Client, r.cell.Agent, o.diff)
		}
	}
	if *wholeMatrix && *cellPattern == "" {
		checkUsed(t, notes, found)
		if err := os.WriteFile(gridPage, []byte(gridText(t, notes, found, time.Now())), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if *cellPattern == "" {
		checkPage(t, notes, found)
	}
}

// sample takes a diagonal of the matrix, so that every endpoint is in it as a
// client and as an agent, and the versions are mixed.
func sample() []attempt {
	all := Endpoints()
	var runs []attempt
	for i, client := range all {
		runs = append(runs, attempt{Cell{client, all[(i+len(all)/2)%len(all)]}, Through})
	}
	return runs
}

func everyRun(t *testing.T) []attempt {
	t.Helper()
	pattern, err := regexp.Compile(*cellPattern)
	if err != nil {
		t.Fatal(err)
	}
	var runs []attempt
	for _, c := range Cells() {
		if !pattern.MatchString(c.Client.String() + "-" + c.Agent.String()) {
			continue
		}
		runs = append(runs, attempt{c, Through})
		if c.Alone() {
			runs = append(runs, attempt{c, Direct})
		}
	}
	return runs
}

// play starts the agents that the runs need and lets the clients loose on them.
func play(t *testing.T, notes []Note, want Told, runs []attempt) map[attempt]outcome {
	t.Helper()
	shared, named := startMesh(t), startNamedMesh(t)
	addresses, keys := map[Endpoint]string{}, map[Endpoint]string{}
	for _, r := range runs {
		if _, err := os.Stat(keptIn(r)); *toldFolder != "" && err == nil {
			continue // nobody has to be started for what is there
		}
		if keys[r.cell.Client] == "" {
			keys[r.cell.Client] = newCaller(t, meshFor(r.cell.Client, shared, named), atMesh(r.cell.Client))
		}
		if e := r.cell.Agent; addresses[e] == "" {
			addresses[e] = startAgent(t, e.SDK, AgentOptions{Bindings: []Binding{e.Binding}}).URL
			for _, mesh := range []*Mesh{shared, named} {
				if err := mesh.AddAgent(t.Context(), atMesh(e), addresses[e]); err != nil {
					t.Errorf("%s cannot be registered: %v", e, err)
				}
			}
		}
	}
	found := map[attempt]outcome{}
	var mu sync.Mutex // guards found
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(clientsAtOnce)
	for _, r := range runs {
		group.Go(func() error {
			told, err := kept(r, func() (Told, error) {
				address := addresses[r.cell.Agent]
				if r.way == Through {
					address = meshFor(r.cell.Client, shared, named).Agent(atMesh(r.cell.Agent))
				}
				return listen(ctx, peers(t), r, address, keys[r.cell.Client])
			})
			if err != nil {
				return err
			}
			expected := Told{}
			for scenario := range want {
				if scenario != "list" || releaseOf(r.cell.Client.SDK).protocol != "0.3" {
					expected[scenario] = want[scenario]
				}
			}
			expected, used := Expect(expected, notes, r.cell, r.way)
			mu.Lock()
			defer mu.Unlock()
			found[r] = outcome{used, difference(expected, told)}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	checkBindings(t, shared, named)
	return found
}

// startNamedMesh starts a mesh whose agents have addresses of their own over gRPC,
// below localhost.
func startNamedMesh(t *testing.T, lines ...string) *Mesh {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(free.Addr().String())
	if err := errors.Join(err, free.Close()); err != nil {
		t.Fatal(err)
	}
	return startMesh(t, append(lines, "grpc_listen: 127.0.0.1:"+port, `grpc_public_url: "*.localhost:`+port+`"`)...)
}

// meshFor is the mesh that a client is played with: callers of 0.3 that speak gRPC
// need one whose agents have addresses of their own.
func meshFor(client Endpoint, shared, named *Mesh) *Mesh {
	if client.Binding == GRPC && releaseOf(client.SDK).protocol == "0.3" {
		return named
	}
	return shared
}

// atMesh names an endpoint as a caller or an agent of the mesh.
func atMesh(e Endpoint) string { return strings.ReplaceAll(e.String(), "/", "-") }

// checkBindings looks into the records for whether each client and each agent
// really spoke the binding that its row or column names.
func checkBindings(t *testing.T, meshes ...*Mesh) {
	t.Helper()
	var calls []Call
	for _, mesh := range meshes {
		recorded, err := mesh.Calls(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, recorded...)
	}
	wants := map[string]Binding{}
	for _, e := range Endpoints() {
		wants[atMesh(e)] = e.Binding
	}
	wrong := map[string]bool{}
	for _, c := range calls {
		if want := wants[c.Caller]; c.CallerBinding != string(want) {
			wrong[fmt.Sprintf("the client %s spoke %s", c.Caller, c.CallerBinding)] = true
		}
		if want := wants[c.Agent]; c.AgentBinding != "" && c.AgentBinding != string(want) {
			wrong[fmt.Sprintf("the agent %s was called over %s", c.Agent, c.AgentBinding)] = true
		}
	}
	for sentence := range wrong {
		t.Error(sentence)
	}
	if len(calls) == 0 && *toldFolder == "" {
		t.Error("no call is recorded")
	}
}

// kept plays, unless that was done before and its outcome is in the folder.
func kept(r attempt, play func() (Told, error)) (Told, error) {
	if *toldFolder == "" {
		return play()
	}
	file := keptIn(r)
	var told Told
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &told)
		for scenario := range told {
			told[scenario] = lines(strings.Join(told[scenario], "\n"))
		}
		return told, err
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if told, err = play(); err != nil {
		return nil, err
	}
	if text, err = json.Marshal(told); err != nil {
		return nil, err
	}
	return told, os.WriteFile(file, text, 0o600)
}

func keptIn(r attempt) string {
	return filepath.Join(*toldFolder, fmt.Sprintf("%s-%s-%s.json", r.way, atMesh(r.cell.Client), atMesh(r.cell.Agent)))
}

// listen plays the scenarios and returns what the client was told.
func listen(ctx context.Context, p *Peers, r attempt, address, key string) (Told, error) {
	scenarios := []string{"send", "stream", "get", "list", "cancel", "subscribe", "input", "files", "errors"}
	if releaseOf(r.cell.Client.SDK).protocol == "0.3" {
		scenarios = slices.DeleteFunc(scenarios, func(s string) bool { return s == "list" })
	}
	documents, err := p.RunClient(ctx, r.cell.Client.SDK, ClientOptions{
		URL: address, Key: key, Binding: r.cell.Client.Binding, Scenarios: scenarios,
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	told := Told{"card": {"card: read"}}
	if err != nil {
		told["card"] = []string{"card: " + cause(err)}
	}
	for _, d := range documents {
		text, err := d.Transcript()
		if err != nil {
			text = "not understood: " + err.Error() + "\n"
		}
		told[d.Scenario] = lines(text)
	}
	return told, nil
}

// cause is what the client itself said of an error, without addresses, which
// differ from run to run.
func cause(err error) string {
	words := err.Error()
	if _, said, ok := strings.Cut(words, ": client: "); ok {
		words = said
	}
	line, _, _ := strings.Cut(words, "\n")
	return line
}

var (
	// chance is what hangs on the moment: how far a task came until somebody
	// subscribed to it, or sent it a further message.
	begun    = regexp.MustCompile(`^stream: task (?:INPUT_REQUIRED|WORKING|COMPLETED) [^|]* \| `)
	chance   = regexp.MustCompile(`"step \d of \d"`)
	metadata = strings.NewReplacer(
		`"https://extensions.invalid/unknown/v1":{"Level":3,"nested":{"x_y":true},"tags":["a","b"]}`, "Metadata",
		"https://extensions.invalid/unknown/v1", "Extension")
)

// lines are those of a transcript, in the words of the script.
func lines(transcript string) []string {
	subscribed := strings.Contains(transcript, "\nsubscribe: ")
	var all []string
	for line := range strings.Lines(metadata.Replace(transcript)) {
		line = strings.TrimSuffix(line, "\n")
		if subscribed {
			line = chance.ReplaceAllString(line, `"step"`)
		}
		all = append(all, begun.ReplaceAllString(line, "stream: task | "))
	}
	return all
}

// difference is the lines in which two tales differ, by their places.
func difference(want, got Told) string {
	scenarios := maps.Clone(want)
	maps.Copy(scenarios, got)
	var b strings.Builder
	for _, scenario := range slices.Sorted(maps.Keys(scenarios)) {
		for step := range max(len(want[scenario]), len(got[scenario])) {
			wanted, told := lineOf(want[scenario], step), lineOf(got[scenario], step)
			if wanted != told {
				fmt.Fprintf(&b, "%s/%d\n\t- %s\n\t+ %s\n", scenario, step, wanted, told)
			}
		}
	}
	return b.String()
}

func lineOf(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "nothing"
}

func readNotes(t *testing.T) []Note {
	t.Helper()
	file, err := os.Open("notes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	notes, err := ReadNotes(file)
	if err != nil {
		t.Fatalf("notes.yaml: %v", err)
	}
	return notes
}

func script(t *testing.T) Told {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/script.txtar")
	if err != nil {
		t.Fatal(err)
	}
	told := Told{}
	for _, file := range archive.Files {
		told[file.Name] = lines(string(file.Data))
	}
	return told
}

// checkUsed refuses notes that explain nothing any more.
func checkUsed(t *testing.T, notes []Note, found map[attempt]outcome) {
	t.Helper()
	used := map[int]bool{}
	for _, o := range found {
		for _, i := range o.notes {
			used[i] = true
		}
	}
	for i, n := range notes {
		if !used[i] {
			t.Errorf("notes.yaml: note %d explains nothing: %s", i+1, n.Why)
		}
	}
}

// mark is a cell of a table: a check mark, or the numbers of notes.
func (o outcome) mark(notes []Note) string {
	if o.diff != "" {
		return "?"
	}
	if len(o.notes) == 0 {
		return "✓"
	}
	var numbers []string
	for _, i := range o.notes {
		if number := fmt.Sprint(notes[i].Number); !slices.Contains(numbers, number) {
			numbers = append(numbers, number)
		}
	}
	return strings.Join(numbers, " ")
}
