package a2a

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

func genMessage(t *rapid.T, label string) Message {
	text := rapid.String()
	id := rapid.StringMatching(`[ -~]{1,12}`)
	m := Message{MessageID: id.Draw(t, label+" id"), Role: rapid.SampledFrom(roles[1:]).Draw(t, label+" role")}
	for range rapid.IntRange(1, 3).Draw(t, label+" parts") {
		p := rapid.SampledFrom([]Part{
			TextPart(""), TextPart(text.Draw(t, "text")), FilePart("a.bin", "x/y", rapid.SliceOf(rapid.Byte()).Draw(t, "raw")),
			LinkPart("https://x.example", ""), DataPart(jsontext.Value("null")), DataPart(jsontext.Value(`{"a":[1.50,"x"]}`)),
		}).Draw(t, label+" part")
		if rapid.Bool().Draw(t, "extra") {
			p.Unknown = jsontext.Value(`{"zz":{"later":true}}`)
		}
		m.Parts = append(m.Parts, p)
	}
	if rapid.Bool().Draw(t, label+" more") {
		m.ContextID, m.TaskID, m.ReferenceTaskIDs = "c", id.Draw(t, "task"), []string{"a", "b"}
		m.Metadata = jsontext.Value(`{"https://e.example/1":{"n":1e3}}`)
		m.Unknown = jsontext.Value(`{"newer":[null]}`)
	}
	return m
}

// A task keeps every member through writing and reading, and Facts see the task
// itself, not what is nested in it.
func TestTaskRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		status := genMessage(t, "status")
		when := Timestamp{time.UnixMicro(rapid.Int64Range(0, 1<<52).Draw(t, "time")).UTC()}
		task := Task{ID: "task-1", ContextID: "ctx-1", Status: TaskStatus{State: rapid.SampledFrom(taskStates[1:]).Draw(t, "state"), Message: &status, Timestamp: &when},
			History: []Message{genMessage(t, "history")}, Unknown: jsontext.Value(`{"future":1}`),
			Artifacts: []Artifact{{ArtifactID: "a", Parts: genMessage(t, "artifact").Parts}}}
		frame := StreamFrame(StreamResponse{Task: &task})
		if frame.Err != nil {
			raw, _ := jsonwire.Marshal(StreamResponse{Task: &task})
			t.Fatalf("our own task is refused: %s", raw)
		}
		f := frame.Facts
		if f.Kind != KindTask || f.TaskID != "task-1" || f.ContextID != "ctx-1" || f.MessageID != "" || f.Role != "" || f.State != task.Status.State || !f.StatusTime.Equal(when.Time) {
			t.Fatalf("facts %+v of %s", f, frame.Result)
		}
		if f.Final() != task.Status.State.Terminal() || f.Interrupted() != task.Status.State.Interrupted() {
			t.Fatalf("final %v, interrupted %v in %s", f.Final(), f.Interrupted(), f.State)
		}
		var again StreamResponse
		if err := jsonwire.Unmarshal(frame.Result, &again, jsonwire.Limits{}); err != nil {
			t.Fatal(err)
		}
		raw, err := jsonwire.Marshal(again)
		if err != nil || string(raw) != string(frame.Result) {
			t.Fatalf("written %s\nagain   %s (%v)", frame.Result, raw, err)
		}
	})
}

func TestRequiredAlwaysWritten(t *testing.T) {
	for want, v := range map[string]any{
		`{"tasks":[],"nextPageToken":"","pageSize":0,"totalSize":0}`: ListTasksResponse{},
		`{"id":"","status":{"state":""}}`:                            Task{},
		`{"messageId":"","role":"","parts":[]}`:                      Message{},
		`{"taskId":"","contextId":"","status":{"state":""}}`:         TaskStatusUpdateEvent{},
		`{"artifactId":"","parts":[]}`:                               Artifact{},
		`{"id":"","name":"","description":"","tags":[]}`:             AgentSkill{},
		`{"schemes":{"a":{}}}`:                                       SecurityRequirement{Schemes: map[string]StringList{"a": {}}},
		`{"raw":"","filename":"f"}`:                                  FilePart("f", "", nil),
		`{"state":"TASK_STATE_WORKING","timestamp":"2026-01-02T03:04:05.678Z"}`: TaskStatus{State: StateWorking,
			Timestamp: &Timestamp{time.Date(2026, 1, 1, 22, 4, 5, 678e6, time.FixedZone("", -5*3600))}},
	} {
		if got, err := jsonwire.Marshal(v); err != nil || string(got) != want {
			t.Errorf("%T = %s, %v; want %s", v, got, err, want)
		}
	}
}

func TestScalars(t *testing.T) {
	tests := []struct {
		checker   jsonwire.Checker
		raw       string
		good, lax bool
	}{
		{Role(""), `"ROLE_USER"`, true, true}, {Role(""), `"ROLE\u005fUSER"`, true, true}, {Role(""), `1`, true, true}, {Role(""), `"user"`, false, false},
		{Role(""), `0`, false, false}, {Role(""), `3`, false, false}, {Role(""), `1.0`, false, false}, {Role(""), `{}`, false, false},
		{TaskState(""), `"TASK_STATE_CANCELED"`, true, true}, {TaskState(""), `"TASK_STATE_CANCELLED"`, false, false}, {TaskState(""), `8`, true, true},
		{Timestamp{}, `"2026-01-02T03:04:05Z"`, true, true}, {Timestamp{}, `"2026-01-02T03:04:05.123456789Z"`, true, true},
		{Timestamp{}, `"2026-01-02T03:04:05-05:00"`, false, true}, {Timestamp{}, `"2026-01-02"`, false, false}, {Timestamp{}, `1767323045`, false, false},
		{Timestamp{}, `"2026-02-30T00:00:00Z"`, false, false}, {Timestamp{}, `"0000-01-01T00:00:00Z"`, false, false},
		{Bytes(nil), `""`, true, true}, {Bytes(nil), `"YQ=="`, true, true}, {Bytes(nil), `"YQ"`, true, true}, {Bytes(nil), `"_-8"`, true, true}, {Bytes(nil), `"\/+8="`, true, true},
		{Bytes(nil), `"Y"`, false, false}, {Bytes(nil), `"a b"`, false, false}, {Bytes(nil), `7`, false, false}, {Bytes(nil), `"+_8="`, false, false},
	}
	for _, tt := range tests {
		for _, lax := range []bool{false, true} {
			want := tt.good
			if lax {
				want = tt.lax
			}
			if problem, _ := tt.checker.CheckWire(jsontext.Value(tt.raw), lax); (problem == "") != want {
				t.Errorf("%T %s, lax %v: %q", tt.checker, tt.raw, lax, problem)
			}
		}
	}
}
