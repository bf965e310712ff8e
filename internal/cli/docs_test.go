package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/manifest"
)

// block is one fenced block of a page.
type block struct {
	page, language string
	line           int // of its first line of text
	text           string
}

// pages are what users read: the README, docs and the fragments of changes.
func pages(t *testing.T) []string {
	t.Helper()
	all := []string{"../../README.md"}
	for _, pattern := range []string{"../../docs/*.md", "../../examples/*.md", "../../examples/*/*.md", "../../changes/unreleased/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	if len(all) < 15 {
		t.Fatalf("only %d pages were found: the test would prove nothing", len(all))
	}
	return all
}

// blocksOf gives the fenced blocks of a page, and its prose without them.
func blocksOf(t *testing.T, page string) (blocks []block, prose string) {
	t.Helper()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var rest strings.Builder
	var open *block
	indent := ""
	for n, line := range strings.Split(string(raw), "\n") {
		trimmed := strings.TrimLeft(line, " ")
		language, fence := strings.CutPrefix(trimmed, "```")
		switch {
		case fence && open == nil:
			indent = line[:len(line)-len(trimmed)]
			open = &block{page: page, language: language, line: n + 2}
		case fence:
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		default:
			rest.WriteString(line + "\n")
		}
	}
	if open != nil {
		t.Errorf("%s:%d: the block has no end", page, open.line)
	}
	return blocks, rest.String()
}

// words splits a line of a shell script into commands of words. Quotes are taken away; what is behind a # or
// belongs to a redirection is left out.
func words(line string) (commands [][]string) {
	var words []string
	var word strings.Builder
	in, quote := false, byte(0)
	redirected := false
	end := func() {
		if in && !redirected {
			words = append(words, word.String())
		}
		if in {
			redirected = false
		}
		in = false
		word.Reset()
	}
	command := func() {
		end()
		if len(words) > 0 {
			commands = append(commands, words)
		}
		words, redirected = nil, false
	}
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteByte(c)
		case c == '\'' || c == '"':
			quote, in = c, true
		case c == '#' && !in:
			i = len(line)
		case c == ' ' || c == '\t':
			end()
		case strings.IndexByte(";|&()", c) >= 0:
			command()
		case c == '<' || c == '>':
			end()
			redirected = true
		default:
			word.WriteByte(c)
			in = true
		}
	}
	command()
	return commands
}

// ours gives the arguments of a command line of parley, also where another
// program starts it; ok is false for commands of others.
func ours(words []string) (args []string, ok bool) {
	assignment := regexp.MustCompile(`^[A-Z_]+=`)
	for len(words) > 0 && (words[0] == "!" || words[0] == "sudo" || assignment.MatchString(words[0])) {
		words = words[1:]
	}
	for i, w := range words {
		program := w == "parley" || w == "/parley" || w == "bin/parley" || w == "./parley" || w == "/usr/local/bin/parley"
		starts := i == 0 || words[0] == "podman" && words[1] == "exec" && i > 2 || words[0] == "kubectl" && words[i-1] == "--"
		if program && starts {
			return words[i+1:], true
		}
	}
	return nil, false
}

// parse reads a command line as Main would, without running it. Loose takes what
// only names a verb and flags, as prose does.
func parse(args []string, loose bool) error {
	cmd, rest, err := newRoot(&program{}).Traverse(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		if loose && strings.Contains(err.Error(), "needs an argument") {
			return nil
		}
		return err
	}
	if loose {
		if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 {
			return cmd.ValidateArgs(cmd.Flags().Args())
		}
		return nil
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return err
	}
	if err := cmd.ValidateRequiredFlags(); err != nil {
		return err
	}
	return cmd.ValidateFlagGroups()
}

// TestCommandLinesOfThePages: whatever a page tells users to type is a command
// line that the program takes.
func TestCommandLinesOfThePages(t *testing.T) {
	checked := 0
	for _, page := range pages(t) {
		blocks, prose := blocksOf(t, page)
		for _, b := range blocks {
			if b.language != "sh" && b.language != "" {
				continue
			}
			for n, text := range linesOf(b) {
				for _, command := range words(text) {
					args, ok := ours(command)
					if !ok {
						continue
					}
					checked++
					if err := parse(args, false); err != nil {
						t.Errorf("%s:%d: %s: %v", page, n, strings.TrimSpace(text), err)
					}
				}
			}
		}
		for _, span := range regexp.MustCompile("`((?:bin/)?parley [^`]+)`").FindAllStringSubmatch(prose, -1) {
			text := strings.Join(strings.Fields(span[1]), " ")
			for _, command := range words(text) {
				if args, ok := ours(command); ok {
					checked++
					if err := parse(args, true); err != nil {
						t.Errorf("%s: `%s`: %v", page, text, err)
					}
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d command lines were found", checked)
	}
}

// linesOf gives the lines of a block by the number of their first, with those
// that go on put together.
func linesOf(b block) map[int]string {
	lines := map[int]string{}
	start, text := b.line, ""
	for i, line := range strings.Split(b.text, "\n") {
		if text == "" {
			start = b.line + i
		}
		if more, goes := strings.CutSuffix(line, `\`); goes {
			text += more
			continue
		}
		lines[start] = text + line
		text = ""
	}
	return lines
}

// TestYAMLOfThePages: every YAML block is a configuration file without a wrong
// key, or documents of parley apply. One that begins indented goes on where the
// one before it ended.
func TestYAMLOfThePages(t *testing.T) {
	checked := 0
	for _, page := range pages(t) {
		blocks, _ := blocksOf(t, page)
		before := ""
		for _, b := range blocks {
			if b.language != "yaml" {
				continue
			}
			checked++
			text := b.text
			if strings.HasPrefix(text, " ") {
				text = before + text
			}
			before = text
			at := fmt.Sprintf("%s:%d", page, b.line)
			if strings.Contains(text, "apiVersion:") {
				if _, problems := manifest.Decode(at, []byte(text)); len(problems) > 0 {
					t.Errorf("%s: %v", at, problems)
				}
				continue
			}
			file := filepath.Join(t.TempDir(), "parley.yaml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := config.Load(config.Options{File: file, Env: []string{"PARLEY_DATA=" + t.TempDir()}}); err != nil {
				t.Errorf("%s: %v", at, err)
			}
		}
	}
	if checked < 5 {
		t.Errorf("only %d YAML blocks were found", checked)
	}
}

// TestWrongLinesOfPagesAreSeen: the tests above can fail.
func TestWrongLinesOfPagesAreSeen(t *testing.T) {
	for line, wrong := range map[string]bool{
		"parley owner list":                                         false,
		"parley owner lst":                                          true,
		"parley owner list --bogus":                                 true,
		"parley agent add echo":                                     true,
		"! parley --server x send echo 'it is' >f":                  false,
		"podman exec mesh /parley owner lst":                        true,
		"kubectl -n parley exec deploy/parley -- /parley owner lst": true,
		"FOO=bar parley bogus":                                      true,
		"podman build -t parley . # parley bogus":                   false,
		"true && parley bogus":                                      true,
	} {
		found := false
		for _, command := range words(line) {
			if args, ok := ours(command); ok && parse(args, false) != nil {
				found = true
			}
		}
		if found != wrong {
			t.Errorf("%q: wrong is %v, want %v", line, found, wrong)
		}
	}
}
