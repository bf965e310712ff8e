package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// output is the form of results.
type output string

const (
	outputTable output = "table"
	outputJSON  output = "json"
)

// String, Set and Type implement pflag.Value.
func (o *output) String() string     { return string(*o) }
func (o *output) Set(s string) error { *o = output(s); return nil }
func (o *output) Type() string       { return "string" }

func (o *output) check() error {
	switch *o {
	case outputTable, outputJSON:
		return nil
	}
	return usagef("--output %q is unknown: use table or json", string(*o))
}

func (p *program) json() bool { return p.flags.output == outputJSON }

// print writes text that has no part from outside, or a cleaned one.
func (p *program) print(format string, args ...any) error {
	_, err := fmt.Fprintf(p.Out, format, args...)
	return err
}

// remark tells something beside the result, on the error stream. A remark that
// cannot be written is nobody's problem.
func (p *program) remark(format string, args ...any) {
	if !p.flags.quiet {
		fmt.Fprintln(p.Err, cleanText(fmt.Sprintf(format, args...)))
	}
}

// document prints one JSON document.
func (p *program) document(v any) error {
	raw, err := encode(v)
	if err != nil {
		return err
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, bytes.TrimRight(raw, "\n"), "", "  "); err != nil { // Indent keeps the line end
		return err
	}
	indented.WriteByte('\n')
	return p.writeJSON(indented.Bytes())
}

// line prints one JSON document in one line.
func (p *program) line(v any) error {
	raw, err := encode(v)
	if err != nil {
		return err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return err
	}
	compact.WriteByte('\n')
	return p.writeJSON(compact.Bytes())
}

func (p *program) writeJSON(raw []byte) error {
	_, err := p.Out.Write(cleanJSON(raw))
	return err
}

// wire marks a value of package a2a, whose JSON is made by jsonwire: members
// that this version does not know stay.
type wire struct{ value any }

func encode(v any) ([]byte, error) {
	if w, ok := v.(wire); ok {
		return jsonwire.Marshal(w.value)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// table is a result of rows; the first row is the header.
type table struct{ rows [][]string }

func columns(header ...string) *table { return &table{rows: [][]string{header}} }

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write prints the table aligned, with empty cells as "-".
func (t *table) write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range t.rows {
		for i, cell := range row {
			if cell = cleanLine(cell); cell == "" {
				cell = "-"
			}
			if i > 0 {
				fmt.Fprint(tw, "\t")
			}
			fmt.Fprint(tw, cell)
		}
		fmt.Fprintln(tw)
	}
	return tw.Flush()
}

// list prints items: as one JSON line each, or as a table; none is said on the
// error stream.
func list[T any](p *program, items []T, none string, header []string, row func(T) []string) error {
	if p.json() {
		for _, item := range items {
			if err := p.line(item); err != nil {
				return err
			}
		}
		return nil
	}
	if len(items) == 0 {
		p.remark("%s", none)
		return nil
	}
	t := columns(header...)
	for _, item := range items {
		t.add(row(item)...)
	}
	return t.write(p.Out)
}

// facts is a result of names and values; empty values are left out.
type facts struct{ rows [][2]string }

func (f *facts) add(name, value string) {
	if value != "" {
		f.rows = append(f.rows, [2]string{name, value})
	}
}

// write prints one fact a line; further lines of a value are indented.
func (f *facts) write(w io.Writer) error {
	width := 0
	for _, r := range f.rows {
		width = max(width, len(r[0]))
	}
	for _, r := range f.rows {
		indent := "\n" + strings.Repeat(" ", width+3)
		value := strings.ReplaceAll(cleanText(r[1]), "\n", indent)
		if _, err := fmt.Fprintf(w, "%-*s   %s\n", width, r[0], value); err != nil {
			return err
		}
	}
	return nil
}

// age is how long ago t was, as tables show it.
func (p *program) age(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return roughly(max(0, p.now().Sub(t)))
}

// roughly is a duration in the largest unit of which it has two.
func roughly(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// moment is a time as a page about one thing shows it, before now or after. What
// another machine's clock has a little ahead of this one's has just happened.
func (p *program) moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	at := t.Local().Format("2006-01-02 15:04:05 MST")
	if ahead := t.Sub(p.now()); ahead > clockTolerance {
		return fmt.Sprintf("%s (in %s)", at, roughly(ahead))
	}
	return fmt.Sprintf("%s (%s ago)", at, p.age(t))
}

// indented is a JSON value as a person reads it.
func indented(raw jsontext.Value) string {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return string(raw)
	}
	return b.String()
}
