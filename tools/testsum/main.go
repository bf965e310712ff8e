// Command testsum reads the output of "go test -json" and prints what a person
// needs: a line per package, the output of what failed, why tests were skipped,
// and at the end one line "N passed, N failed, N skipped". Its exit code is 1 if
// anything failed, a package did not build, or no test ran at all.
//
// Tests are counted with their subtests' parents but not the subtests
// themselves, so that the number says how many behaviours are named.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// event is one line of "go test -json"; see "go doc test2json".
type event struct {
	Action     string
	Package    string
	ImportPath string // of a build, for build-output
	Test       string
	Elapsed    float64
	Output     string
}

func main() {
	s := &summary{out: os.Stdout, output: map[string][]string{}}
	if err := s.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(2)
	}
	if !s.close() {
		os.Exit(1)
	}
}

type summary struct {
	out    io.Writer
	output map[string][]string // by package and test, until its verdict

	passed, failed, skipped int
	broken                  bool // a package failed outside its tests
}

// maxLine bounds one line of test output.
const maxLine = 16 << 20

func (s *summary) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			// Not an event: the go command itself speaks, and only of trouble.
			fmt.Fprintln(s.out, lines.Text())
			continue
		}
		s.take(e)
	}
	return lines.Err()
}

func (s *summary) take(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		fmt.Fprint(s.out, e.Output)
	case "output":
		if e.Test == "" {
			s.packageOutput(key, e.Output)
			return
		}
		s.output[key] = append(s.output[key], e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			s.packageDone(key, e)
			return
		}
		s.testDone(key, e)
	}
}

// packageOutput passes the verdict lines of go test on, and keeps the rest in
// case the package fails.
func (s *summary) packageOutput(key, text string) {
	for _, verdict := range []string{"ok  \t", "FAIL\t", "?   \t"} {
		if strings.HasPrefix(text, verdict) {
			fmt.Fprint(s.out, text)
			return
		}
	}
	s.output[key] = append(s.output[key], text)
}

func (s *summary) packageDone(key string, e event) {
	if e.Action == "fail" {
		s.broken = true
		for _, text := range s.output[key] {
			fmt.Fprint(s.out, text)
		}
	}
	delete(s.output, key)
}

func (s *summary) testDone(key string, e event) {
	top := !strings.Contains(e.Test, "/")
	switch {
	case e.Action == "fail":
		for _, text := range s.output[key] {
			fmt.Fprint(s.out, text)
		}
		if top {
			s.failed++
		}
	case e.Action == "skip":
		fmt.Fprintf(s.out, "skipped %s %s: %s\n", e.Package, e.Test, reason(s.output[key]))
		if top {
			s.skipped++
		}
	case top:
		s.passed++
	}
	delete(s.output, key)
}

// reason is the last line a skipped test wrote before its verdict.
func reason(output []string) string {
	for i := len(output) - 1; i >= 0; i-- {
		text := strings.TrimSpace(output[i])
		if text != "" && !strings.HasPrefix(text, "---") && !strings.HasPrefix(text, "===") {
			return text
		}
	}
	return "no reason given"
}

func (s *summary) close() bool {
	fmt.Fprintf(s.out, "%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
	return !s.broken && s.failed == 0 && s.passed > 0
}
