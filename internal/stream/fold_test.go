package stream

import (
	"encoding/json"
	"reflect"
	"testing"
)

// TestSnapshot: the events of a task, one after the other, give the task that a
// subscriber has who has read them all.
func TestSnapshot(t *testing.T) {
	const begun = `{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_SUBMITTED"}}}`
	for what, tc := range map[string]struct {
		events []string
		want   string // the task; empty: not known
	}{
		"nothing":             {nil, ""},
		"no task yet":         {[]string{`{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_WORKING"}}}`}, ""},
		"the task alone":      {[]string{begun}, `{"id":"t","contextId":"c","status":{"state":"TASK_STATE_SUBMITTED"}}`},
		"what came before it": {[]string{`{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_WORKING"}}}`, begun}, `{"id":"t","contextId":"c","status":{"state":"TASK_STATE_SUBMITTED"}}`},
		"a status, and the message of the one before": {[]string{
			begun,
			`{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_WORKING","message":{"messageId":"1"}}}}`,
			`{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_WORKING","message":null}}}`,
			`{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_COMPLETED","timestamp":"2026-03-01T00:00:00Z"}}}`,
		}, `{"id":"t","contextId":"c","history":[{"messageId":"1"}],"status":{"state":"TASK_STATE_COMPLETED","timestamp":"2026-03-01T00:00:00Z"}}`},
		"a context that the task did not name": {[]string{
			`{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"}}}`, `{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}`,
		}, `{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}`},
		"artifacts added, gone on with and replaced": {[]string{
			`{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"},"artifacts":[{"artifactId":"a","name":"first","parts":[{"text":"1"}]}]}}`,
			`{"artifactUpdate":{"taskId":"t","append":true,"artifact":{"artifactId":"a","parts":[{"text":"2"},{"text":"3"}]}}}`,
			`{"artifactUpdate":{"taskId":"t","append":true,"artifact":{"artifactId":"b","parts":[{"text":"x"}]}}}`,
			`{"artifactUpdate":{"taskId":"t","append":true,"artifact":{"artifactId":"a","description":"later","metadata":{"k":1},"parts":[{"text":"4"}]}}}`,
			`{"artifactUpdate":{"taskId":"t","artifact":{"artifactId":"b","parts":[{"text":"y"}]}}}`,
			`{"artifactUpdate":{"taskId":"t","append":true,"lastChunk":true,"artifact":{"artifactId":"b"}}}`,
		}, `{"id":"t","status":{"state":"TASK_STATE_WORKING"},"artifacts":[
			{"artifactId":"a","name":"first","description":"later","metadata":{"k":1},"parts":[{"text":"1"},{"text":"2"},{"text":"3"},{"text":"4"}]},
			{"artifactId":"b","parts":[{"text":"y"}]}]}`},
		"a whole task takes the place of all before": {[]string{
			begun,
			`{"artifactUpdate":{"taskId":"t","artifact":{"artifactId":"a","parts":[{"text":"1"}]}}}`,
			`{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"},"metadata":{"k":{"deep":9007199254740993}},"artifacts":[{"artifactId":"b","parts":[]}]}}`,
			`{"artifactUpdate":{"taskId":"t","append":true,"artifact":{"artifactId":"a","parts":[{"text":"2"}]}}}`,
		}, `{"id":"t","status":{"state":"TASK_STATE_WORKING"},"metadata":{"k":{"deep":9007199254740993}},"artifacts":[{"artifactId":"b","parts":[]},{"artifactId":"a","parts":[{"text":"2"}]}]}`},
		"members that nobody knows": {[]string{`{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING","x":1},"later":[true]}}`}, `{"id":"t","status":{"state":"TASK_STATE_WORKING","x":1},"later":[true]}`},
	} {
		t.Run(what, func(t *testing.T) {
			var s Snapshot
			for i, e := range tc.events {
				if err := s.Add(Event{Seq: int64(i) + 7, Frame: []byte(e)}); err != nil {
					t.Fatal(err)
				}
			}
			if len(tc.events) > 0 && s.Seq != int64(len(tc.events))+6 {
				t.Errorf("stands at %d", s.Seq)
			}
			got, err := s.Frame(nil)
			if s.Known() != (tc.want != "") || (err == nil) != s.Known() {
				t.Fatalf("known %v, %v", s.Known(), err)
			}
			if s.Known() {
				wantFrame(t, got, tc.want)
			}
		})
	}
}

func wantFrame(t *testing.T, got []byte, task string) {
	t.Helper()
	if !reflect.DeepEqual(decode(t, string(got)), decode(t, `{"task":`+task+`}`)) {
		t.Errorf("got %s, want the task %s", got, task)
	}
}

func decode(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// TestSnapshotMarks stand in what is told, beside the task's own metadata, and not
// in what is told later; hidden members are there again, too.
func TestSnapshotMarks(t *testing.T) {
	var s Snapshot
	const task = `{"id":"t","status":{"state":"TASK_STATE_WORKING"},"history":[{"messageId":"1"}],"metadata":{"k":1}}`
	if err := s.Add(Event{Seq: 1, Frame: []byte(`{"task":` + task + `}`)}); err != nil {
		t.Fatal(err)
	}
	marked, err := s.Frame(map[string]any{GapKey: map[string]int64{"after": 3, "next": 9}}, "history")
	if err != nil {
		t.Fatal(err)
	}
	wantFrame(t, marked, `{"id":"t","status":{"state":"TASK_STATE_WORKING"},"metadata":{"k":1,"`+GapKey+`":{"after":3,"next":9}}}`)
	plain, err := s.Frame(nil)
	if err != nil {
		t.Fatal(err)
	}
	wantFrame(t, plain, task)
}

// TestSnapshotOfNonsense: frames that are no events are errors.
func TestSnapshotOfNonsense(t *testing.T) {
	const begun = `{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"},"artifacts":[{"artifactId":"a","parts":7}]}}`
	for _, frame := range []string{``, `[]`, `{"task":7}`, `{"task":{"artifacts":7}}`, `{"artifactUpdate":{"append":true,"artifact":{"artifactId":"a"}}}`} {
		var s Snapshot
		if err := s.Add(Event{Seq: 1, Frame: []byte(begun)}); err != nil {
			t.Fatal(err)
		}
		if err := s.Add(Event{Seq: 2, Frame: []byte(frame)}); err == nil {
			t.Errorf("%s is taken", frame)
		}
	}
}
