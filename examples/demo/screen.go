package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/parley-mesh/parley/interop"
)

// screen is where the demo prints: in colour and with a running clock on a
// terminal, in plain lines elsewhere. What cannot be written is lost, as with
// any program whose reader has gone.
type screen struct {
	out      *os.File
	terminal bool
	colour   bool
}

func newScreen(out *os.File) *screen {
	terminal := term.IsTerminal(int(out.Fd()))
	return &screen{out: out, terminal: terminal, colour: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// Codes of ECMA-48, select graphic rendition.
const (
	bold  = "1"
	faint = "2"
	red   = "31"
	green = "32"
)

func (s *screen) paint(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *screen) line(format string, args ...any) {
	fmt.Fprintf(s.out, format+"\n", args...)
}

func (s *screen) heading(text string) { s.line("%s", s.paint(bold, text)) }

// stepWidth is the room for the name of a step.
const stepWidth = 36

// step does something that may take long, and shows that and how long.
func (s *screen) step(name string, do func() error) error {
	begun := time.Now()
	fmt.Fprintf(s.out, "  %-*s ", stepWidth, name+" …")
	ended, shown := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(shown)
		s.clock(name, begun, ended)
	}()
	err := do()
	close(ended)
	<-shown
	took := fmt.Sprintf("%6.1f s", time.Since(begun).Seconds())
	if err != nil {
		took = s.paint(red, "failed")
	}
	if s.terminal {
		fmt.Fprintf(s.out, "\r\x1b[K  %-*s ", stepWidth, name)
	}
	s.line("%s", took)
	return err
}

// clock shows on a terminal how long a step has been running.
func (s *screen) clock(name string, begun time.Time, ended <-chan struct{}) {
	if !s.terminal {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case now := <-tick.C:
			fmt.Fprintf(s.out, "\r\x1b[K  %-*s %s", stepWidth, name+" …",
				s.paint(faint, fmt.Sprintf("%6.0f s", now.Sub(begun).Seconds())))
		}
	}
}

// Widths of the columns of calls: the longest name, binding and outcome there
// are in the demo.
const (
	callerWidth  = 15
	agentWidth   = 12
	bindingWidth = 9
	outcomeWidth = 12
)

func (s *screen) callsHeader() {
	s.line("%s", s.paint(faint, fmt.Sprintf("  %-*s   %-*s  %-*s   %-*s  %-*s %8s  %s", callerWidth, "CALLER", agentWidth, "AGENT",
		bindingWidth, "SPEAKS", bindingWidth, "SPOKEN TO", outcomeWidth, "OUTCOME", "MS", "CALL")))
}

// call prints a call in one line, further in where it was made inside another.
func (s *screen) call(c interop.Call, depth int) {
	indent := ""
	if depth > 0 {
		indent = strings.Repeat(" ", depth-1) + "└ "
	}
	outcome := fmt.Sprintf("%-*s", outcomeWidth, c.Outcome)
	if c.Outcome == "ok" {
		outcome = s.paint(green, outcome)
	} else {
		outcome = s.paint(red, outcome)
	}
	s.line("  %-*s → %-*s  %-*s → %-*s  %s %8.1f  %s", callerWidth, indent+c.Caller, agentWidth, c.Agent,
		bindingWidth, c.CallerBinding, bindingWidth, c.AgentBinding, outcome, c.TotalMS, s.paint(faint, c.ID))
}

// answerWidth is how much of an answer is shown, in characters.
const answerWidth = 110

// answer prints what came back of a call.
func (s *screen) answer(text string) {
	if shown := []rune(text); len(shown) > answerWidth {
		text = string(shown[:answerWidth-1]) + "…"
	}
	s.line("%s", s.paint(faint, "    "+text))
}

// commands prints commands to type, with what each is for above it, so that a
// whole line can be copied.
func (s *screen) commands(list [][2]string) {
	for _, command := range list {
		s.line("  %s", s.paint(faint, "# "+command[1]))
		s.line("  %s", command[0])
	}
}
