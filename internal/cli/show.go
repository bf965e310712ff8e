package cli

import (
	"fmt"
	"strings"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/parley"
)

// viewer shows what comes back from an agent: what it says and makes goes to
// the output, how it is getting on to the error stream. It remembers what was
// shown, so that a snapshot after a stream repeats nothing.
type viewer struct {
	p    *program
	task a2a.Task // as far as it was seen: ids and status

	shown     map[string]bool // artifact ids
	current   string          // the artifact that chunks are being printed of
	midLine   bool            // the output does not stand at the start of a line
	state     a2a.TaskState   // told last
	described string          // status message told last
	content   bool            // something went to the output
}

func newViewer(p *program) *viewer { return &viewer{p: p, shown: map[string]bool{}} }

// answer shows the answer to a message that was not streamed.
func (v *viewer) answer(r *a2a.SendMessageResponse) error {
	if v.p.json() {
		return v.p.document(wire{r})
	}
	if r.Message != nil {
		return v.say(messageText(r.Message))
	}
	return v.snapshot(r.Task)
}

// event shows one element of a stream.
func (v *viewer) event(e *a2a.StreamResponse) error {
	v.note(e)
	if v.p.json() {
		return v.p.line(wire{e})
	}
	switch {
	case e.Message != nil:
		return v.say(messageText(e.Message))
	case e.Task != nil:
		return v.snapshot(e.Task)
	case e.StatusUpdate != nil:
		return v.status(&e.StatusUpdate.Status)
	case e.ArtifactUpdate != nil:
		return v.chunk(e.ArtifactUpdate)
	}
	return nil
}

// note keeps the ids and the status that an event tells.
func (v *viewer) note(e *a2a.StreamResponse) {
	switch {
	case e.Task != nil:
		v.task.ID, v.task.ContextID, v.task.Status = e.Task.ID, e.Task.ContextID, e.Task.Status
	case e.StatusUpdate != nil:
		v.task.ID, v.task.ContextID, v.task.Status = e.StatusUpdate.TaskID, e.StatusUpdate.ContextID, e.StatusUpdate.Status
	case e.ArtifactUpdate != nil:
		v.task.ID, v.task.ContextID = e.ArtifactUpdate.TaskID, e.ArtifactUpdate.ContextID
	}
}

// snapshot shows a whole task: its artifacts, then what its status says. An
// agent that gives neither has often put its answer into the history.
func (v *viewer) snapshot(t *a2a.Task) error {
	v.task.ID, v.task.ContextID, v.task.Status = t.ID, t.ContextID, t.Status
	for _, a := range t.Artifacts {
		if v.shown[a.ArtifactID] {
			continue
		}
		v.shown[a.ArtifactID] = true
		if len(t.Artifacts) > 1 {
			if err := v.title(a.Name, a.ArtifactID); err != nil {
				return err
			}
		}
		if err := v.say(partsText(a.Parts)); err != nil {
			return err
		}
	}
	if err := v.status(&t.Status); err != nil {
		return err
	}
	if t.Status.State == a2a.StateCompleted && !v.content {
		return v.lastWords(t.History)
	}
	return nil
}

func (v *viewer) lastWords(history []a2a.Message) error {
	for i := len(history) - 1; i >= 0; i-- {
		if history[i].Role == a2a.RoleAgent {
			return v.say(messageText(&history[i]))
		}
	}
	return nil
}

// title names an artifact among several.
func (v *viewer) title(name, id string) error {
	if name == "" {
		name = id
	}
	return v.say(v.p.styleOf(v.p.Out).faint("── " + cleanLine(name) + " ──"))
}

// say prints text on lines of its own.
func (v *viewer) say(text string) error {
	if err := v.endLine(); err != nil || text == "" {
		return err
	}
	v.content = true
	return v.p.print("%s\n", strings.TrimRight(text, "\n"))
}

// endLine ends a line that chunks left open.
func (v *viewer) endLine() error {
	if !v.midLine {
		return nil
	}
	v.midLine = false
	return v.p.print("\n")
}

// chunk shows a part of an artifact as it comes.
func (v *viewer) chunk(e *a2a.TaskArtifactUpdateEvent) error {
	id := e.Artifact.ArtifactID
	if v.current != id || !e.Append {
		if err := v.endLine(); err != nil {
			return err
		}
		if len(v.shown) > 0 && !v.shown[id] {
			if err := v.title(e.Artifact.Name, id); err != nil {
				return err
			}
		}
	}
	v.current, v.shown[id] = id, true
	for _, part := range e.Artifact.Parts {
		text := partText(part)
		if part.Text == nil { // a value or a file stands on lines of its own
			if err := v.say(text); err != nil {
				return err
			}
			continue
		}
		if text == "" {
			continue
		}
		v.content, v.midLine = true, !strings.HasSuffix(text, "\n")
		if err := v.p.print("%s", text); err != nil {
			return err
		}
	}
	if e.LastChunk {
		v.current = ""
		return v.endLine()
	}
	return nil
}

// nextTurn begins the answer to another message: what it says is told also
// where it says the same as the one before.
func (v *viewer) nextTurn() { v.state, v.described = "", "" }

// status tells a change of state. What the agent says at a rest is its answer
// and goes to the output; what it says on the way is a remark; what it says of
// a failure is in the error that ends the command.
func (v *viewer) status(s *a2a.TaskStatus) error {
	text := messageText(s.Message)
	if s.State == v.state && text == v.described {
		return nil
	}
	v.state, v.described = s.State, text
	switch s.State {
	case a2a.StateCompleted, a2a.StateInputRequired, a2a.StateAuthRequired:
		if err := v.say(text); err != nil {
			return err
		}
		if text == "" && s.State != a2a.StateCompleted { // whoever is asked to answer is told so
			v.remark(stateText(s.State))
		}
	case a2a.StateFailed, a2a.StateCanceled, a2a.StateRejected:
		if err := v.endLine(); err != nil {
			return err
		}
	default:
		if err := v.endLine(); err != nil {
			return err
		}
		if text != "" {
			v.remark(stateText(s.State) + ": " + text)
		}
	}
	return nil
}

func (v *viewer) remark(text string) {
	if !v.p.flags.quiet {
		fmt.Fprintln(v.p.Err, v.p.styleOf(v.p.Err).faint(text)) // made of cleaned parts
	}
}

// end ends the output and tells what came of the task: an error where it did
// not complete.
func (v *viewer) end(e *edge) error {
	if err := v.endLine(); err != nil {
		return err
	}
	t := &v.task
	if t.ID == "" {
		v.footer("", e)
		return nil
	}
	switch s := t.Status.State; s {
	case a2a.StateFailed, a2a.StateCanceled, a2a.StateRejected:
		text := fmt.Sprintf("task %s ended as %s", cleanLine(t.ID), stateText(s))
		if said := messageText(t.Status.Message); said != "" {
			text += ": " + said
		}
		return parley.E("cli.task", parley.AgentFailed, parley.Subject(t.ID), text, nil)
	case a2a.StateInputRequired, a2a.StateAuthRequired:
		v.footer(nextStep(e.agent, t.ID, s), e)
	case a2a.StateCompleted:
		v.footer("", e)
	default:
		v.footer(fmt.Sprintf("task %s is %s; look again with: parley task get %s %s", cleanLine(t.ID), stateText(s), e.agent, shellWord(t.ID)), e)
	}
	return nil
}

// nextStep is what to do about a task that waits for its caller; empty for one
// that does not.
func nextStep(agent, task string, s a2a.TaskState) string {
	switch s {
	case a2a.StateInputRequired:
		return "the agent asks; answer with: parley send " + agent + " TEXT --task " + shellWord(task)
	case a2a.StateAuthRequired:
		return "the agent waits for an authorization: give it where the agent says, and nowhere else; afterwards: parley task subscribe " + agent + " " + shellWord(task)
	}
	return ""
}

// footer is the last remark: what to do next, and the record of the call.
func (v *viewer) footer(next string, e *edge) {
	if next != "" {
		v.p.remark("%s", next)
	}
	if id := e.call(); id != "" {
		v.remark("call " + cleanLine(id))
	}
}

// shellWord is s as one word of a shell, for commands that are shown.
func shellWord(s string) string {
	s = cleanLine(s)
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+=,", r))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
