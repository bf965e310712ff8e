package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// run runs one command line as a process would and gives what it printed.
func run(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Main(context.Background(), args, Streams{In: strings.NewReader(""), Out: &out, Err: &errs, Env: env})
	return code, out.String(), errs.String()
}

func testProgram() (*program, *bytes.Buffer, *bytes.Buffer) {
	var out, errs bytes.Buffer
	p := &program{Streams: Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, now: func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }}
	p.flags.output = outputTable
	return p, &out, &errs
}

// verbs walks all commands that a person may see.
func verbs(cmd *cobra.Command, visit func(*cobra.Command)) {
	for _, child := range cmd.Commands() {
		if child.Hidden || child.Name() == "help" {
			continue
		}
		visit(child)
		verbs(child, visit)
	}
}

func TestEveryVerbTeachesByExamplesThatParse(t *testing.T) {
	p, _, _ := testProgram()
	root := newRoot(p)
	seen := 0
	verbs(root, func(cmd *cobra.Command) {
		if cmd.Short == "" {
			t.Errorf("%s has no short description", cmd.CommandPath())
		}
		if cmd.HasSubCommands() {
			return
		}
		seen++
		if !strings.Contains(cmd.Example, cmd.CommandPath()) {
			t.Errorf("the examples of %s do not show it:\n%s", cmd.CommandPath(), cmd.Example)
		}
		for line := range strings.SplitSeq(cmd.Example, "\n") {
			if !strings.HasPrefix(line, "  ") {
				t.Errorf("%s: the example %q is not indented by two blanks", cmd.CommandPath(), line)
			}
			checkExample(t, line)
		}
	})
	if seen < 35 {
		t.Errorf("only %d verbs were found", seen)
	}
}

// checkExample makes sure that an example is a command line that is understood.
func checkExample(t *testing.T, line string) {
	t.Helper()
	_, line, found := strings.Cut(line, "parley ")
	if !found {
		t.Errorf("the example %q is no parley command", line)
		return
	}
	args := splitWords(strings.TrimSuffix(line, ")"))
	p, _, _ := testProgram()
	root := newRoot(p) // flags keep their values, so each line gets its own
	cmd, rest, err := root.Find(args)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err == nil {
		err = cmd.ValidateFlagGroups()
	}
	if err != nil {
		t.Errorf("the example %q: %v", line, err)
	}
}

// splitWords splits a command line at blanks outside of double quotes, up to a
// redirection.
func splitWords(line string) []string {
	line, _, _ = strings.Cut(line, " <")
	var words []string
	var word strings.Builder
	quoted, begun := false, false
	for _, r := range line {
		switch {
		case r == '"':
			quoted, begun = !quoted, true
		case r == ' ' && !quoted:
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if begun {
		words = append(words, word.String())
	}
	return words
}

func TestGlobalFlagsStandBeforeAndBehindTheVerb(t *testing.T) {
	for _, args := range [][]string{
		{"--output", "json", "--quiet", "version"},
		{"version", "--quiet", "--output", "json"},
		{"--quiet", "version", "--output=json"},
	} {
		code, out, errs := run(t, nil, args...)
		if code != 0 || !strings.Contains(out, `"a2a": "1.0"`) {
			t.Errorf("%v: code %d, output %q, errors %q", args, code, out, errs)
		}
	}
}

func TestCompletionIsHiddenAndWorks(t *testing.T) {
	_, help, _ := run(t, nil, "--help")
	if strings.Contains(help, "completion") {
		t.Errorf("the help shows completion:\n%s", help)
	}
	code, script, _ := run(t, nil, "completion", "bash")
	if code != 0 || !strings.Contains(script, "parley") {
		t.Errorf("completion bash: code %d, %d bytes", code, len(script))
	}
}

func TestHelpHasNoColourAndNoTrailingBlanks(t *testing.T) {
	p, _, _ := testProgram()
	verbs(newRoot(p), func(cmd *cobra.Command) {
		_, help, _ := run(t, nil, append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
		if strings.Contains(help, "\x1b") || !strings.Contains(help, "Global Flags:") {
			t.Errorf("%s --help:\n%s", cmd.CommandPath(), help)
		}
	})
}
