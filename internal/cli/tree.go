package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/parley-mesh/parley/internal/control"
)

// treeLine is one call of a chain as it is drawn.
type treeLine struct {
	branch string // the lines that lead to it, and who calls whom
	call   control.Call
}

// drawTree draws a chain of calls, each below the call it stands inside, with
// outcome and milliseconds. asked is the call that was asked about.
func drawTree(w io.Writer, s style, tree control.CallTree, asked string) error {
	lines, gone := layTree(tree)
	if gone {
		if _, err := fmt.Fprintf(w, "%s   no longer on record\n", cleanLine(tree.Root)); err != nil {
			return err
		}
	}
	branchWidth, methodWidth, outcomeWidth := 0, 0, 0
	for _, l := range lines {
		branchWidth = max(branchWidth, utf8.RuneCountInString(l.branch))
		methodWidth = max(methodWidth, utf8.RuneCountInString(l.call.Method))
		outcomeWidth = max(outcomeWidth, utf8.RuneCountInString(cleanLine(outcomeText(l.call))))
	}
	for _, l := range lines {
		outcome := pad(cleanLine(outcomeText(l.call)), outcomeWidth)
		switch l.call.Outcome {
		case "ok":
			outcome = s.good(outcome)
		case "open":
		default:
			outcome = s.bad(outcome)
		}
		took := "-"
		if l.call.Ended != nil {
			took = callTime(l.call) + " ms"
		}
		mark := ""
		if l.call.ID == asked && len(lines) > 1 {
			mark = " ←"
		}
		if _, err := fmt.Fprintf(w, "%s   %s   %s   %10s   %s%s\n", pad(l.branch, branchWidth), pad(cleanLine(l.call.Method), methodWidth), outcome, took, s.faint(cleanLine(l.call.ID)), mark); err != nil {
			return err
		}
	}
	return nil
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

// layTree puts every call of a chain below its parent, in the order the calls
// began. A call whose line of parents does not lead to the root, because one of
// them is not known or no longer on record, stands below the root; gone says
// that the root itself is no longer on record.
func layTree(tree control.CallTree) (lines []treeLine, gone bool) {
	parents := map[string]string{}
	for _, c := range tree.Calls {
		parents[c.ID] = c.Parent
	}
	children := map[string][]control.Call{}
	for _, c := range tree.Calls {
		switch {
		case c.ID == tree.Root:
			lines = append(lines, treeLine{edgeText(c), c})
		case leadsTo(tree.Root, c.Parent, parents):
			children[c.Parent] = append(children[c.Parent], c)
		default:
			children[tree.Root] = append(children[tree.Root], c)
		}
	}
	gone = len(lines) == 0
	var below func(id, indent string)
	below = func(id, indent string) {
		for i, c := range children[id] {
			branch, next := "├─ ", "│  "
			if i == len(children[id])-1 {
				branch, next = "└─ ", "   "
			}
			lines = append(lines, treeLine{indent + branch + edgeText(c), c})
			below(c.ID, indent+next)
		}
	}
	below(tree.Root, "")
	return lines, gone
}

// leadsTo reports whether the line of parents from id on ends at root.
func leadsTo(root, id string, parents map[string]string) bool {
	for range len(parents) + 1 { // a circle ends too
		if id == root {
			return true
		}
		if id == "" {
			return false
		}
		id = parents[id]
	}
	return false
}

// edgeText is who calls whom.
func edgeText(c control.Call) string {
	text := cleanLine(string(c.Caller) + " → " + string(c.Agent))
	switch c.Link {
	case "turn":
		text += " (next turn)"
	case "ambiguous":
		text += " (parent not sure)"
	}
	return text
}
