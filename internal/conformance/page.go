package conformance

import (
	"fmt"
	"strings"
)

// Column is one of the two ways the rows are tested.
type Column string

const (
	Direct  Column = "directly"
	Through Column = "through Parley"
)

// Outcomes are what came of the rows that were run: by column and row, whether
// every run of it passed.
type Outcomes map[Column]map[int]bool

// Note adds one run of a row.
func (o Outcomes) Note(row int, c Column, passed bool) {
	if o[c] == nil {
		o[c] = map[int]bool{}
	}
	before, ran := o[c][row]
	o[c][row] = passed && (before || !ran)
}

// status is what the page says of a row: its reason, or how its runs went.
func (o Outcomes) status(row int, c Column, reason string) string {
	passed, ran := o[c][row]
	switch {
	case reason != "":
		return reason
	case !ran:
		return "not run"
	case passed:
		return "passed"
	}
	return "failed"
}

// Page writes docs/conformance.md.
func Page(rows []Row, out Outcomes) string {
	var b strings.Builder
	fmt.Fprint(&b, pageHead)
	counts := map[Column]map[string]int{Direct: {}, Through: {}}
	var table strings.Builder
	for _, r := range rows {
		direct, through := out.status(r.Number, Direct, r.Direct), out.status(r.Number, Through, r.Through)
		for c, status := range map[Column]string{Direct: direct, Through: through} {
			word, _, _ := strings.Cut(status, ":")
			counts[c][word]++
		}
		test := ""
		if r.Test != "" {
			test = "`" + r.Name() + "`"
		}
		fmt.Fprintf(&table, "| %d | %s | %s | %s | %s | %s | %s | %s |\n", r.Number, r.Section, r.Level, r.Role, r.Text, direct, through, test)
	}
	fmt.Fprint(&b, "| | passed | open | not applicable |\n|---|---|---|---|\n")
	for _, c := range []Column{Direct, Through} {
		fmt.Fprintf(&b, "| %s | %d | %d | %d |\n", c, counts[c]["passed"], counts[c]["open"], counts[c]["not applicable"])
	}
	fmt.Fprint(&b, "\n| row | section | level | role | demand | directly | through Parley | test |\n|---|---|---|---|---|---|---|---|\n")
	b.WriteString(table.String())
	return b.String()
}

const pageHead = `# Conformance with A2A v1.0

<!-- Written by make generate from internal/conformance. Do not edit. -->

Each row is a demand of the A2A specification v1.0.1, in our words, with the section it comes from. Rows are tested
in the bindings JSON-RPC, HTTP+JSON and gRPC: *directly* on our protocol package, with a reference agent built on it or
with our client; and *through Parley*, where the same agent stands behind a running mesh, for callers and agents of each
binding, nine pairings in all. A row has passed when it passed in every one of these pairings. What only JSON can say,
such as a member of a wrong type, is not asked in gRPC; and there a page size of 0 counts as none, since the official Go
client writes it into every request.

The tests are those of ` + "`internal/conformance`" + `: ` + "`go test ./internal/conformance -run 'TestConformance/.*/.*/Row012'`" + ` runs
one row everywhere. They write and read the wire by themselves, in gRPC through the generated messages of the official
SDK. This page is compared with the outcome of every run, so it cannot say passed of a row whose test does not pass.

`
