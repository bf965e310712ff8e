package conformance

import "fmt"

// Level is how strongly the specification demands a row.
type Level string

const (
	Must   Level = "MUST"
	Should Level = "SHOULD"
)

// Role says who has to meet a row.
type Role string

const (
	Server Role = "server"
	Client Role = "client"
	Both   Role = "both"
)

// Row is one demand of the specification.
type Row struct {
	Number  int
	Section string // of the specification
	Level   Level
	Role    Role
	Text    string
	Test    string // what its test is named after; empty where there is none
	// Direct and Through say why a row is not tested directly or through Parley:
	// "open: reason" or "not applicable: reason". Empty means that it is.
	Direct, Through string
}

// Name is the name of the row's test.
func (r Row) Name() string { return fmt.Sprintf("Row%03d_%s", r.Number, r.Test) }

// open and never are the two reasons for a row without a test.
func open(reason string) string  { return "open: " + reason }
func never(reason string) string { return "not applicable: " + reason }

// untested makes a row that has no test anywhere.
func untested(number int, section string, level Level, role Role, text, status string) Row {
	return Row{number, section, level, role, text, "", status, status}
}
