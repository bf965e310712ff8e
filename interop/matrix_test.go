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

// matrix is which pairs work through Parley, by what the client speaks and what
// the agent does.
type matrix map[string]map[string]bool

// crossing names a pairing of bindings, as a column of the table.
func crossing(spoken, served Binding) string { return string(spoken) + " → " + string(served) }

func (m matrix) set(p pair, spoken, served Binding, ok bool) {
	if m[p.name()] == nil {
		m[p.name()] = map[string]bool{}
	}
	m[p.name()][crossing(spoken, served)] = ok
}

// text is the table.
func (m matrix) text() string {
	var columns []string
	for _, spoken := range bindings {
		for _, served := range bindings {
			columns = append(columns, crossing(spoken, served))
		}
	}
	names := map[SDK]string{Go: "Go", JavaScript: "JavaScript", Python: "Python"}
	var b strings.Builder
	fmt.Fprintf(&b, "| client | agent | %s |\n|---|---|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for _, p := range everyPair() {
		fmt.Fprintf(&b, "| %s | %s |", names[p.client], names[p.agent])
		for _, c := range columns {
			cell := "no"
			if m[p.name()][c] {
				cell = "yes"
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		b.WriteByte('\n')
	}
	return b.String()
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
