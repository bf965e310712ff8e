package interop

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// gridPage is where the matrix is published.
const gridPage = "../docs/interop.md"

const gridIntroduction = `# What works with what

<!-- Written by make interop. -->

Stock programs on the official SDKs, old and new, as clients of each other through Parley: %d pairings of a client's SDK,
version and binding with an agent's. Each plays the scenarios of [interop](../interop/README.md): card, messages and tasks,
streams, history, lists, cancellation, subscription, questions that the caller answers, files and data, errors. Played on %s with

| SDK | protocol | package | version |
|---|---|---|---|
%s
A check mark says that the client is told all that the agent says: every word, state, artifact, file and reason of
an error. A number names a note below: the one thing that the client is told otherwise, and why. No other
difference is allowed; the tests fail on it. Lists of tasks are asked for by clients of 1.0 alone: 0.3 has no such operation.
Push notifications are played apart, between some pairs that have each SDK once on either side; the client is told in its
own version and verifies what it is told.

## Through Parley

A row is a client and what it speaks, a column an agent and what it serves. %s

%s
## Without Parley

The same programs with each other, where they speak the same version and binding. What a note says of a pair here is what its
SDKs do, with nothing between them.

%s
## Notes

%s`

// gridText is the page.
func gridText(t *testing.T, notes []Note, found map[attempt]outcome, now time.Time) string {
	t.Helper()
	var sdks, explained strings.Builder
	for _, r := range releases {
		version, err := r.version("..")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&sdks, "| %s | %s | `%s` | %s |\n", r.title, r.protocol, r.module, version)
	}
	for i, why := range Reasons(notes) {
		fmt.Fprintf(&explained, "%d. %s\n", i+1, why)
	}
	return fmt.Sprintf(gridIntroduction, len(Cells()), now.UTC().Format(time.DateOnly), sdks.String(), legend(),
		gridTable(Through, notes, found), gridTable(Direct, notes, found), explained.String())
}

// legend explains the heads of rows and columns.
func legend() string {
	return "R stands for JSON-RPC, H for HTTP+JSON, G for gRPC."
}

var bindingLetters = map[Binding]string{JSONRPC: "R", HTTPJSON: "H", GRPC: "G"}

// head names an endpoint in a table.
func head(e Endpoint) string {
	r := releaseOf(e.SDK)
	return fmt.Sprintf("%s %s %s", r.title, r.protocol, bindingLetters[e.Binding])
}

// gridTable is one row per client and one column per agent.
func gridTable(way Way, notes []Note, found map[attempt]outcome) string {
	var b strings.Builder
	b.WriteString("| client |")
	for _, agent := range Endpoints() {
		fmt.Fprintf(&b, " %s |", head(agent))
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(Endpoints())) + "\n")
	for _, client := range Endpoints() {
		fmt.Fprintf(&b, "| %s |", head(client))
		for _, agent := range Endpoints() {
			cell := Cell{client, agent}
			mark := " "
			if way == Through || cell.Alone() {
				mark = found[attempt{cell, way}].mark(notes)
			}
			fmt.Fprintf(&b, " %s |", mark)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// published reads the cells of one way out of the page.
func published(t *testing.T, page string, way Way) map[Cell]string {
	t.Helper()
	title := map[Way]string{Through: "## Through Parley", Direct: "## Without Parley"}[way]
	_, section, ok := strings.Cut(page, title)
	if !ok {
		t.Fatalf("%s: no section %q", gridPage, title)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string][]string{}
	for line := range strings.Lines(section) {
		if fields := strings.Split(line, "|"); len(fields) > 2 {
			rows[strings.TrimSpace(fields[1])] = fields[2:]
		}
	}
	cells := map[Cell]string{}
	for _, client := range Endpoints() {
		row := rows[head(client)]
		for i, agent := range Endpoints() {
			if i < len(row) {
				cells[Cell{client, agent}] = strings.TrimSpace(row[i])
			}
		}
	}
	return cells
}

// checkPage holds the page equal to what was found.
func checkPage(t *testing.T, notes []Note, found map[attempt]outcome) {
	t.Helper()
	page := readPage(t)
	for r, o := range found {
		if got, want := published(t, page, r.way)[r.cell], o.mark(notes); got != want {
			t.Errorf("%s: %s with %s is %q and was %q here; make interop", gridPage, r.cell.Client, r.cell.Agent, got, want)
		}
	}
}

func readPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(gridPage)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPage holds the page complete: every cell has an outcome, every note that a
// cell names is there, and the versions are those of the lock files.
func TestPage(t *testing.T) {
	page, notes := readPage(t), readNotes(t)
	for _, r := range releases {
		version, err := r.version("..")
		if err != nil {
			t.Fatal(err)
		}
		if row := fmt.Sprintf("| %s | %s | `%s` | %s |\n", r.title, r.protocol, r.module, version); !strings.Contains(page, row) {
			t.Errorf("%s: no row %q; make interop", gridPage, row)
		}
	}
	for i, why := range Reasons(notes) {
		if want := fmt.Sprintf("\n%d. %s\n", i+1, why); !strings.Contains(page, want) {
			t.Errorf("%s: note %d is not that of notes.yaml; make interop", gridPage, i+1)
		}
	}
	valid := regexp.MustCompile(`^(✓|\d+( \d+)*)$`)
	for _, way := range []Way{Through, Direct} {
		cells := published(t, page, way)
		for _, c := range Cells() {
			if way == Direct && !c.Alone() {
				continue
			}
			if !valid.MatchString(cells[c]) {
				t.Errorf("%s: %s, %s with %s: %q is no outcome; make interop", gridPage, way, c.Client, c.Agent, cells[c])
			}
		}
	}
}
