package v03

import (
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

func (r reader) messageToV1(in *oldMessage) (*newMessage, error) {
	if in.Kind != "" && in.Kind != "message" {
		return nil, problem("/kind", `must be "message"`, "")
	}
	if err := unreserved(in.Metadata, KeyV03); err != nil {
		return nil, err
	}
	role, err := r.enumToV1(in.Role, roles)
	if err != nil {
		return nil, under("role", err)
	}
	name, parts := "parts", in.Parts
	switch {
	case in.Content != nil && in.Parts != nil:
		return nil, problem("/content", "stands beside parts, which is the same in another dialect", "give one of them")
	case in.Content != nil && r.dialect == RPC && !r.lax:
		return nil, problem("/parts", "is required", "")
	case in.Content != nil:
		name, parts = "content", in.Content
	}
	out := &newMessage{MessageID: in.MessageID, ContextID: in.ContextID, TaskID: in.TaskID, Role: role,
		Metadata: given(in.Metadata), Extensions: in.Extensions, ReferenceTaskIDs: in.ReferenceTaskIDs}
	if out.Parts, err = r.partsToV1(parts); err != nil {
		return nil, under(name, err)
	}
	if len(out.Parts) > 0 {
		return out, nil
	}
	if !r.lax {
		return nil, problem("/"+name, "must not be empty", "")
	}
	out.Parts = noParts()
	out.Metadata, err = pack(out.Metadata, KeyV03, carriedV03{NoParts: true})
	return out, err
}

// noParts is what 1.0, where a message has parts, shows for one without.
func noParts() []newPart {
	empty := ""
	return []newPart{{Text: &empty}}
}

func (r reader) messageFromV1(in *newMessage, d Dialect) (*oldMessage, error) {
	if err := unreserved(in.Metadata, KeyV1); err != nil {
		return nil, err
	}
	role, err := enumFromV1(in.Role, roles, d)
	if err != nil {
		return nil, under("role", err)
	}
	out := &oldMessage{MessageID: in.MessageID, ContextID: in.ContextID, TaskID: in.TaskID, Role: role,
		Extensions: in.Extensions, ReferenceTaskIDs: in.ReferenceTaskIDs}
	parts, err := r.contentFromV1(in.Parts, &in.Metadata, d)
	if err != nil {
		return nil, err
	}
	out.Metadata = in.Metadata
	if d == RPC {
		out.Kind, out.Parts = "message", nonNil(parts)
	} else {
		out.Content = parts
	}
	return out, nil
}

// contentFromV1 writes the parts of a message or artifact, and takes out of its
// metadata that it had none.
func (r reader) contentFromV1(in []newPart, metadata *jsontext.Value, d Dialect) (parts []oldPart, err error) {
	var carried carriedV03
	if *metadata, err = r.unpack(*metadata, KeyV03, &carried); err != nil {
		return nil, err
	}
	if carried.NoParts && len(in) == 1 {
		return nil, nil
	}
	if parts, err = partsFromV1(in, d); err != nil {
		return nil, under("parts", err)
	}
	return parts, nil
}

func (r reader) statusToV1(in *oldStatus) (out newStatus, err error) {
	if out.State, err = r.enumToV1(in.State, states); err != nil {
		return out, under("state", err)
	}
	if out.Timestamp, err = r.timeToV1(in.Timestamp); err != nil {
		return out, under("timestamp", err)
	}
	if in.Message != nil {
		if out.Message, err = r.messageToV1(in.Message); err != nil {
			return out, under("message", err)
		}
	}
	return out, nil
}

// timeToV1 reads a time of 0.3, which may have any offset, and in SDKs none at
// all: UTC then. One in UTC stays as it is written.
func (r reader) timeToV1(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil && r.lax {
		t, err = time.Parse("2006-01-02T15:04:05.999999999", text)
		text += "Z"
	}
	if y := t.UTC().Year(); err != nil || y < 1 || y > 9999 {
		return "", problem("", "is not a timestamp", `write UTC as in "2026-01-02T03:04:05.678Z"`)
	}
	if strings.HasSuffix(text, "Z") {
		return text, nil
	}
	return t.UTC().Format(time.RFC3339Nano), nil
}

func (r reader) statusFromV1(in *newStatus, d Dialect) (out oldStatus, err error) {
	if out.State, err = enumFromV1(in.State, states, d); err != nil {
		return out, under("state", err)
	}
	out.Timestamp = in.Timestamp
	if in.Message != nil {
		if out.Message, err = r.messageFromV1(in.Message, d); err != nil {
			return out, under("message", err)
		}
	}
	return out, nil
}

func (r reader) artifactToV1(in *oldArtifact) (out newArtifact, err error) {
	if err := unreserved(in.Metadata, KeyV03); err != nil {
		return out, err
	}
	out = newArtifact{ArtifactID: in.ArtifactID, Name: in.Name, Description: in.Description,
		Metadata: given(in.Metadata), Extensions: in.Extensions}
	if out.Parts, err = r.partsToV1(in.Parts); err != nil {
		return out, under("parts", err)
	}
	if len(out.Parts) == 0 {
		out.Parts = noParts()
		out.Metadata, err = pack(out.Metadata, KeyV03, carriedV03{NoParts: true})
	}
	return out, err
}

func (r reader) artifactFromV1(in *newArtifact, d Dialect) (out oldArtifact, err error) {
	if err := unreserved(in.Metadata, KeyV1); err != nil {
		return out, err
	}
	parts, err := r.contentFromV1(in.Parts, &in.Metadata, d)
	if err != nil {
		return out, err
	}
	if d == RPC {
		parts = nonNil(parts)
	}
	return oldArtifact{ArtifactID: in.ArtifactID, Name: in.Name, Description: in.Description, Parts: parts,
		Metadata: in.Metadata, Extensions: in.Extensions}, nil
}

func (r reader) taskToV1(in *oldTask) (*newTask, error) {
	if in.Kind != "" && in.Kind != "task" {
		return nil, problem("/kind", `must be "task"`, "")
	}
	out := &newTask{ID: in.ID, Metadata: given(in.Metadata)}
	if in.ContextID != nil {
		out.ContextID = *in.ContextID
	}
	var err error
	if out.Status, err = r.statusToV1(&in.Status); err != nil {
		return nil, under("status", err)
	}
	if in.Artifacts != nil {
		out.Artifacts = make([]newArtifact, len(in.Artifacts))
	}
	for i := range in.Artifacts {
		if out.Artifacts[i], err = r.artifactToV1(&in.Artifacts[i]); err != nil {
			return nil, under("artifacts", under(strconv.Itoa(i), err))
		}
	}
	if in.History != nil {
		out.History = make([]newMessage, len(in.History))
	}
	for i := range in.History {
		m, err := r.messageToV1(&in.History[i])
		if err != nil {
			return nil, under("history", under(strconv.Itoa(i), err))
		}
		out.History[i] = *m
	}
	return out, nil
}

func (r reader) taskFromV1(in *newTask, d Dialect) (*oldTask, error) {
	out := &oldTask{ID: in.ID, Metadata: given(in.Metadata)}
	if d == RPC {
		out.Kind = "task"
	}
	if d == RPC || in.ContextID != "" {
		out.ContextID = &in.ContextID
	}
	var err error
	if out.Status, err = r.statusFromV1(&in.Status, d); err != nil {
		return nil, under("status", err)
	}
	if in.Artifacts != nil {
		out.Artifacts = make([]oldArtifact, len(in.Artifacts))
	}
	for i := range in.Artifacts {
		if out.Artifacts[i], err = r.artifactFromV1(&in.Artifacts[i], d); err != nil {
			return nil, under("artifacts", under(strconv.Itoa(i), err))
		}
	}
	if in.History != nil {
		out.History = make([]oldMessage, len(in.History))
	}
	for i := range in.History {
		m, err := r.messageFromV1(&in.History[i], d)
		if err != nil {
			return nil, under("history", under(strconv.Itoa(i), err))
		}
		out.History[i] = *m
	}
	return out, nil
}
