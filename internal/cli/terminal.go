package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// terminal is the file descriptor of a stream that is a terminal.
func terminal(stream any) (fd int, ok bool) {
	f, ok := stream.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	return int(f.Fd()), true
}

// canAsk reports whether somebody can be asked.
func (p *program) canAsk() bool {
	_, ok := terminal(p.In)
	return ok
}

// prompt writes a question where whoever types sees it: on the error stream,
// or where that goes elsewhere, on the terminal that is typed at. What cannot
// be written there is not seen by anybody either.
func (p *program) prompt(format string, args ...any) {
	to := p.Err
	if _, ok := terminal(p.Err); !ok {
		if typed, ok := p.In.(io.Writer); ok {
			to = typed
		}
	}
	fmt.Fprintf(to, format, args...)
}

// errNoAnswer says that the input ended before an answer.
var errNoAnswer = errors.New("no answer was given")

// maxAnswer is the longest line that is read from a terminal, in bytes.
const maxAnswer = 1 << 20

// ask prints a prompt and reads one line. The error is errNoAnswer where the
// input ends.
func (p *program) ask(ctx context.Context, prompt string) (string, error) {
	if p.lines == nil {
		p.lines = bufio.NewScanner(p.In)
		p.lines.Buffer(nil, maxAnswer)
	}
	p.prompt("%s", prompt)
	return p.await(ctx, func() (string, error) {
		if p.lines.Scan() {
			return strings.TrimSpace(p.lines.Text()), nil
		}
		if err := p.lines.Err(); err != nil {
			return "", err
		}
		return "", errNoAnswer
	})
}

// await runs a read that cannot be interrupted beside ctx. A read that is left
// behind ends with the process, which is about to.
func (p *program) await(ctx context.Context, read func() (string, error)) (string, error) {
	type answer struct {
		text string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		text, err := read()
		answers <- answer{text, err}
	}()
	select {
	case a := <-answers:
		return a.text, a.err
	case <-ctx.Done():
		p.prompt("\n")
		return "", ctx.Err()
	}
}

// maxSecret is the longest secret that is read, in bytes.
const maxSecret = 64 << 10

// secret reads a secret: from file ("-" is the input), else asked for without
// echo, else from an input that is no terminal.
func (p *program) secret(ctx context.Context, what, file string) (string, error) {
	fd, typed := terminal(p.In)
	switch {
	case file != "" && file != "-":
		raw, err := readFile(file, maxSecret)
		if err != nil {
			return "", usagef("read the %s: %w", what, err)
		}
		return strings.TrimRight(string(raw), "\r\n"), nil
	case typed && file == "":
		return p.typedSecret(ctx, what, fd)
	}
	raw, err := readAll(p.In, "the input", maxSecret)
	if err != nil {
		return "", usagef("read the %s: %w", what, err)
	}
	return strings.TrimRight(string(raw), "\r\n"), nil
}

func (p *program) typedSecret(ctx context.Context, what string, fd int) (string, error) {
	state, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("ask for the %s: %w", what, err)
	}
	p.prompt("%s (not shown): ", what)
	text, err := p.await(ctx, func() (string, error) {
		raw, err := term.ReadPassword(fd)
		return string(raw), err
	})
	p.prompt("\n")
	if ctx.Err() != nil {
		return "", errors.Join(ctx.Err(), term.Restore(fd, state)) // the read that is left behind had echo off
	}
	if errors.Is(err, io.EOF) {
		return "", errNoAnswer
	}
	return text, err
}

// style marks text on a terminal and leaves it alone elsewhere.
type style struct{ on bool }

// styleOf is the style of a stream: plain where it is no terminal, where the
// terminal knows no colour and where NO_COLOR is set.
func (p *program) styleOf(stream any) style {
	_, ok := terminal(stream)
	return style{ok && p.variable("NO_COLOR") == "" && p.variable("TERM") != "dumb"}
}

func (s style) paint(code, text string) string {
	if !s.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) faint(text string) string { return s.paint("2", text) }
func (s style) bad(text string) string   { return s.paint("31", text) }
func (s style) good(text string) string  { return s.paint("32", text) }
