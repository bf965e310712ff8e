package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
)

// Snapshot is a task as its events tell it: what a subscriber sees who has read
// all of them. The zero value has seen none.
type Snapshot struct {
	Seq  int64 // of the last event that went in
	task map[string]json.RawMessage
	// artifacts in order; index finds them by id
	artifacts []map[string]json.RawMessage
	index     map[string]int
}

// errNoTask says that the events do not begin with a whole Task.
var errNoTask = errors.New("the events of a task do not begin with the task")

// Known reports whether a whole Task went in, so that the snapshot is one.
func (s *Snapshot) Known() bool { return s.task != nil }

// Add takes the next event in. Events before the first whole Task say too little
// and are passed over.
func (s *Snapshot) Add(e Event) error {
	var frame struct {
		Task           map[string]json.RawMessage `json:"task"`
		StatusUpdate   map[string]json.RawMessage `json:"statusUpdate"`
		ArtifactUpdate *struct {
			Artifact map[string]json.RawMessage `json:"artifact"`
			Append   bool                       `json:"append"`
		} `json:"artifactUpdate"`
	}
	if err := json.Unmarshal(e.Frame, &frame); err != nil {
		return err
	}
	s.Seq = e.Seq
	switch {
	case frame.Task != nil:
		return s.begin(frame.Task)
	case s.task == nil:
	case frame.StatusUpdate != nil:
		return s.status(frame.StatusUpdate)
	case frame.ArtifactUpdate != nil:
		return s.artifact(frame.ArtifactUpdate.Artifact, frame.ArtifactUpdate.Append)
	}
	return nil
}

func (s *Snapshot) begin(task map[string]json.RawMessage) error {
	s.task, s.artifacts, s.index = task, nil, map[string]int{}
	raw := task["artifacts"]
	delete(task, "artifacts")
	if raw == nil {
		return nil
	}
	var artifacts []map[string]json.RawMessage
	if err := json.Unmarshal(raw, &artifacts); err != nil {
		return err
	}
	for _, a := range artifacts {
		s.put(a)
	}
	return nil
}

// put adds an artifact or replaces the one of its id.
func (s *Snapshot) put(a map[string]json.RawMessage) {
	id := string(a["artifactId"])
	if i, known := s.index[id]; known {
		s.artifacts[i] = a
		return
	}
	s.index[id] = len(s.artifacts)
	s.artifacts = append(s.artifacts, a)
}

// status takes a new status over. The message of the one before goes into the
// history, as agents do that keep one.
func (s *Snapshot) status(update map[string]json.RawMessage) error {
	var before struct {
		Message json.RawMessage `json:"message"`
	}
	if raw := s.task["status"]; raw != nil {
		if err := json.Unmarshal(raw, &before); err != nil {
			return err
		}
	}
	if before.Message != nil && !bytes.Equal(before.Message, []byte("null")) {
		var history []json.RawMessage
		if err := list(s.task["history"], &history); err != nil {
			return err
		}
		raw, err := json.Marshal(append(history, before.Message))
		if err != nil {
			return err
		}
		s.task["history"] = raw
	}
	if raw := update["status"]; raw != nil {
		s.task["status"] = raw
	}
	if raw := update["contextId"]; s.task["contextId"] == nil && raw != nil {
		s.task["contextId"] = raw
	}
	return nil
}

// artifact takes an artifact or a piece of one over: parts are added, what a
// later piece says beside them replaces what an earlier one said.
func (s *Snapshot) artifact(a map[string]json.RawMessage, more bool) error {
	i, known := s.index[string(a["artifactId"])]
	if !more || !known {
		s.put(a)
		return nil
	}
	whole := s.artifacts[i]
	var parts, added []json.RawMessage
	if err := list(whole["parts"], &parts); err != nil {
		return err
	}
	if err := list(a["parts"], &added); err != nil {
		return err
	}
	raw, err := json.Marshal(append(parts, added...))
	if err != nil {
		return err
	}
	maps.Copy(whole, a)
	whole["parts"] = raw
	return nil
}

// list reads a list that may be missing.
func list(raw json.RawMessage, into *[]json.RawMessage) error {
	if raw == nil {
		return nil
	}
	return json.Unmarshal(raw, into)
}

// Frame gives the snapshot as a StreamResponse, with what marks adds to the
// task's metadata; nil adds nothing. Members of the task that are named as hidden
// are left out.
func (s *Snapshot) Frame(marks map[string]any, hidden ...string) ([]byte, error) {
	if s.task == nil {
		return nil, errNoTask
	}
	task := maps.Clone(s.task)
	if len(s.artifacts) > 0 {
		raw, err := json.Marshal(s.artifacts)
		if err != nil {
			return nil, err
		}
		task["artifacts"] = raw
	}
	for _, name := range hidden {
		delete(task, name)
	}
	return frameOf(task, marks)
}

// TaskFrame gives a Task as a StreamResponse, with marks in its metadata.
func TaskFrame(task []byte, marks map[string]any) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(task, &members); err != nil {
		return nil, err
	}
	return frameOf(members, marks)
}

func frameOf(task map[string]json.RawMessage, marks map[string]any) ([]byte, error) {
	if len(marks) > 0 {
		metadata := map[string]any{}
		if raw := task["metadata"]; raw != nil {
			var known map[string]json.RawMessage
			if err := json.Unmarshal(raw, &known); err != nil {
				return nil, err
			}
			for name, value := range known {
				metadata[name] = value
			}
		}
		maps.Copy(metadata, marks)
		raw, err := json.Marshal(metadata)
		if err != nil {
			return nil, err
		}
		task["metadata"] = raw
	}
	return json.Marshal(map[string]any{"task": task})
}
