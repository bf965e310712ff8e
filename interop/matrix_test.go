package interop

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// matrixPage is where the outcome is published.
const matrixPage = "../docs/sdk/README.md"

// matrixMark stands around the table in the page.
var matrixMark = regexp.MustCompile("(?s)<!-- matrix -->\n.*?<!-- matrix end -->\n")

// table is cells by the pair's name and the column.
type table map[string]map[string]string

func (t table) set(p pair, column, cell string) {
	if t[p.name()] == nil {
		t[p.name()] = map[string]string{}
	}
	t[p.name()][column] = cell
}

// text is the table, with these columns.
func (t table) text(columns []string) string {
	names := map[SDK]string{Go: "Go", JavaScript: "JavaScript", Python: "Python"}
	var b strings.Builder
	fmt.Fprintf(&b, "| client | agent | %s |\n|---|---|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for _, p := range everyPair() {
		fmt.Fprintf(&b, "| %s | %s |", names[p.client], names[p.agent])
		for _, c := range columns {
			cell := t[p.name()][c]
			if cell == "" {
				cell = "no"
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// matrix is which pairs work, through Parley and alone, by what the client
// speaks and what the agent does.
type matrix struct{ through, alone table }

// crossing names a pairing of bindings, as a column of the table.
func crossing(spoken, served Binding) string { return string(spoken) + " → " + string(served) }

func (m matrix) text() string {
	var crossings, alone []string
	for _, spoken := range bindings {
		alone = append(alone, string(spoken))
		for _, served := range bindings {
			crossings = append(crossings, crossing(spoken, served))
		}
	}
	return m.through.text(crossings) + "\nThe same pairs alone, by the binding that both speak. \"but NAMES\" are scenarios in which the client is told something\n" +
		"else than what happened; mostly it cannot read the other SDK's errors.\n\n" + m.alone.text(alone)
}

// alone says how a pair does without Parley: which scenarios do not give what
// they should.
func alone(t *testing.T, p pair, documents []Document) string {
	t.Helper()
	want := transcripts(t)
	var but []string
	for _, d := range documents {
		got, err := d.Transcript()
		if err != nil || got != want.of(d.Scenario, p.agent) {
			but = append(but, d.Scenario)
		}
	}
	if but == nil {
		return "yes"
	}
	return "but " + strings.Join(but, ", ")
}

// check holds the page equal to the outcome, or writes it.
func (m matrix) check(t *testing.T) {
	t.Helper()
	have, err := os.ReadFile(matrixPage)
	if err != nil {
		t.Fatal(err)
	}
	if !matrixMark.Match(have) {
		t.Fatalf("%s has no place for the table", matrixPage)
	}
	want := matrixMark.ReplaceAllString(string(have), "<!-- matrix -->\n\n"+m.text()+"\n<!-- matrix end -->\n")
	if *update {
		if err := os.WriteFile(matrixPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(have)); diff != "" {
		t.Errorf("%s: differs from what the test found (-want +got), go test ./interop -run TestThroughParley -update:\n%s", matrixPage, diff)
	}
}
