package cli

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
)

func status(state a2a.TaskState, text string) *a2a.StreamResponse {
	e := &a2a.TaskStatusUpdateEvent{TaskID: "t", ContextID: "c", Status: a2a.TaskStatus{State: state}}
	if text != "" {
		e.Status.Message = agentSays(text)
	}
	return &a2a.StreamResponse{StatusUpdate: e}
}

func agentSays(text string) *a2a.Message {
	return &a2a.Message{MessageID: "m", Role: a2a.RoleAgent, Parts: []a2a.Part{a2a.TextPart(text)}}
}

func chunk(id, name string, more, last bool, parts ...a2a.Part) *a2a.StreamResponse {
	return &a2a.StreamResponse{ArtifactUpdate: &a2a.TaskArtifactUpdateEvent{
		TaskID: "t", ContextID: "c", Append: more, LastChunk: last, Artifact: a2a.Artifact{ArtifactID: id, Name: name, Parts: parts},
	}}
}

func snapshot(state a2a.TaskState, artifacts ...a2a.Artifact) *a2a.StreamResponse {
	return &a2a.StreamResponse{Task: &a2a.Task{ID: "t", ContextID: "c", Status: a2a.TaskStatus{State: state}, Artifacts: artifacts}}
}

func artifact(id, text string) a2a.Artifact {
	return a2a.Artifact{ArtifactID: id, Name: id, Parts: []a2a.Part{a2a.TextPart(text)}}
}

func TestStreamIsShownReadable(t *testing.T) {
	for _, tc := range []struct {
		name    string
		events  []*a2a.StreamResponse
		out     string
		remarks string
		fails   string
	}{
		{
			"pieces of one artifact make one text, progress goes beside it",
			[]*a2a.StreamResponse{
				snapshot(a2a.StateSubmitted), status(a2a.StateWorking, "thinking"),
				chunk("a", "poem", false, false, a2a.TextPart("The se")), chunk("a", "poem", true, false, a2a.TextPart("a, the")),
				chunk("a", "poem", true, true, a2a.TextPart(" sea")), status(a2a.StateCompleted, ""),
			},
			"The sea, the sea\n", "working: thinking\n", "",
		},
		{
			"a remark in the middle does not tear the text apart on a line of its own",
			[]*a2a.StreamResponse{
				chunk("a", "", false, false, a2a.TextPart("one")), status(a2a.StateWorking, "half"), chunk("a", "", true, true, a2a.TextPart("two")), status(a2a.StateCompleted, ""),
			},
			"one\ntwo\n", "working: half\n", "",
		},
		{
			"a second artifact is named",
			[]*a2a.StreamResponse{
				chunk("a", "first", false, true, a2a.TextPart("1\n")), chunk("b", "second", false, true, a2a.TextPart("2")), status(a2a.StateCompleted, "both done"),
			},
			"1\n── second ──\n2\nboth done\n", "", "",
		},
		{
			"a snapshot repeats nothing that was shown",
			[]*a2a.StreamResponse{
				chunk("a", "", false, true, a2a.TextPart("1")), snapshot(a2a.StateCompleted, artifact("a", "1"), artifact("b", "2")),
			},
			"1\n── b ──\n2\n", "", "",
		},
		{
			"values and files stand on lines of their own",
			[]*a2a.StreamResponse{
				chunk("a", "", false, true, a2a.TextPart("see:"), a2a.DataPart(jsontext.Value(`{"n":1}`)), a2a.FilePart("x.bin", "application/octet-stream", []byte{0, 1})),
				status(a2a.StateCompleted, ""),
			},
			"see:\n{\n  \"n\": 1\n}\n[file x.bin application/octet-stream, 2 bytes]\n", "", "",
		},
		{
			"what an agent puts into the history of a finished task is its answer",
			[]*a2a.StreamResponse{{Task: &a2a.Task{ID: "t", Status: a2a.TaskStatus{State: a2a.StateCompleted}, History: []a2a.Message{
				{MessageID: "1", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart("question")}}, *agentSays("answer"),
			}}}},
			"answer\n", "", "",
		},
		{
			"a question is the answer, and how to go on a remark",
			[]*a2a.StreamResponse{status(a2a.StateInputRequired, "how many?")},
			"how many?\n", "the agent asks; answer with: parley send echo TEXT --task t\n", "",
		},
		{
			"a failure is an error that says what the agent said",
			[]*a2a.StreamResponse{chunk("a", "", false, false, a2a.TextPart("half")), status(a2a.StateFailed, "out of \x1b[1mpaper")},
			"half\n", "", `task t ended as failed: out of \x1b[1mpaper`,
		},
		{"a message ends it", []*a2a.StreamResponse{{Message: agentSays("hello")}}, "hello\n", "", ""},
	} {
		p, out, errs := testProgram()
		v := newViewer(p)
		for _, e := range tc.events {
			if err := v.event(e); err != nil {
				t.Fatalf("%s: %v", tc.name, err)
			}
		}
		err := v.end(&edge{agent: "echo", ids: &callIDs{}})
		if (err != nil) != (tc.fails != "") || err != nil && (plainMessage(err) != tc.fails || kindOf(err) != parley.AgentFailed) {
			t.Errorf("%s: ends with %v, want %q", tc.name, err, tc.fails)
		}
		if diff := cmp.Diff(tc.out, out.String()); diff != "" {
			t.Errorf("%s: output (-want +got):\n%s", tc.name, diff)
		}
		if diff := cmp.Diff(tc.remarks, errs.String()); diff != "" {
			t.Errorf("%s: remarks (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestQuietShowsTheAnswerAlone(t *testing.T) {
	p, out, errs := testProgram()
	p.flags.quiet = true
	v := newViewer(p)
	for _, e := range []*a2a.StreamResponse{status(a2a.StateWorking, "thinking"), chunk("a", "", false, true, a2a.TextPart("done")), status(a2a.StateCompleted, "")} {
		if err := v.event(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.end(&edge{agent: "echo", ids: &callIDs{last: "id"}}); err != nil || out.String() != "done\n" || errs.Len() != 0 {
		t.Errorf("%v, output %q, remarks %q", err, out, errs)
	}
}

func TestJSONStreamIsOneLineAnEventAndKeepsUnknownMembers(t *testing.T) {
	p, out, _ := testProgram()
	p.flags.output = outputJSON
	v := newViewer(p)
	e := status(a2a.StateWorking, "two\nlines \u009b")
	e.StatusUpdate.Unknown = jsontext.Value(`{"later":{"x":[1,2]}}`)
	for range 2 {
		if err := v.event(e); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"later":{"x":[1,2]}`) || !strings.Contains(lines[0], `two\nlines \u009b`) {
		t.Errorf("got %q", lines)
	}
}

func TestStates(t *testing.T) {
	for text, want := range map[string]a2a.TaskState{
		"": "", "working": a2a.StateWorking, "input-required": a2a.StateInputRequired, "INPUT_REQUIRED": a2a.StateInputRequired, "TASK_STATE_FAILED": a2a.StateFailed,
	} {
		if got, err := parseState(text); err != nil || got != want {
			t.Errorf("parseState(%q) = %q, %v", text, got, err)
		}
	}
	if _, err := parseState("done"); err == nil || !strings.Contains(err.Error(), "completed") {
		t.Errorf("parseState(done): %v", err)
	}
	if got := stateText(a2a.StateInputRequired); got != "input required" {
		t.Errorf("stateText gives %q", got)
	}
}

// TestEveryTurnTellsThatTheAgentAsks: also one in which it says nothing, or
// the same as before.
func TestEveryTurnTellsThatTheAgentAsks(t *testing.T) {
	p, out, remarks := testProgram()
	v := newViewer(p)
	for _, says := range []string{"how much?", "", "", "how much?", "how much?"} {
		if err := v.event(status(a2a.StateInputRequired, says)); err != nil {
			t.Fatal(err)
		}
		if err := v.event(status(a2a.StateInputRequired, says)); err != nil { // the snapshot behind a stream
			t.Fatal(err)
		}
		v.nextTurn()
	}
	if got := out.String(); got != "how much?\nhow much?\nhow much?\n" {
		t.Errorf("the output is %q", got)
	}
	if got := remarks.String(); got != "input required\ninput required\n" {
		t.Errorf("the remarks are %q", got)
	}
}

func TestRetriedTextSaysWhereNothingIsTried(t *testing.T) {
	for pending, want := range map[int64]string{0: "P has nothing to try: no events are pending", 2: "P is tried again now: 2 events are pending"} {
		if got := retriedText(control.Push{ID: "P", Pending: pending}); got != want {
			t.Errorf("%d pending: %q, want %q", pending, got, want)
		}
	}
}
