package v03

import (
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// Kinds of the objects of RPC, and where ProtoJSON and 1.0 put them.
const (
	kindTask     = "task"
	kindMessage  = "message"
	kindStatus   = "status-update"
	kindArtifact = "artifact-update"
)

// EventToV1 translates an element of a 0.3 stream into a StreamResponse of 1.0. It
// reads tolerantly, as from an answering peer.
func EventToV1(d Dialect, raw []byte, lim jsonwire.Limits) ([]byte, error) {
	out, err := reader{dialect: d, lax: true, limits: lim}.eventToV1(raw)
	if err != nil {
		return nil, err
	}
	return jsonwire.Marshal(out)
}

// EventFromV1 translates a StreamResponse of 1.0 into an element of a 0.3 stream.
func EventFromV1(d Dialect, raw []byte, lim jsonwire.Limits) ([]byte, error) {
	r := reader{lax: true, limits: lim}
	var in newEvent
	if err := r.into(raw, &in); err != nil {
		return nil, err
	}
	return r.eventFromV1(&in, d)
}

// oldEventOf reads an event, bare with a kind or wrapped without.
func (r reader) oldEventOf(raw []byte) (in oldEvent, err error) {
	kind, bare := jsonwire.Get(raw, "/kind")
	if !bare {
		return in, r.into(raw, &in)
	}
	switch jsonwire.String(kind) {
	case kindTask:
		in.Task = new(oldTask)
		err = r.into(raw, in.Task)
	case kindMessage:
		in.Message = new(oldMessage)
		err = r.into(raw, in.Message)
	case kindStatus:
		in.StatusUpdate = new(oldStatusEvent)
		err = r.into(raw, in.StatusUpdate)
	case kindArtifact:
		in.ArtifactUpdate = new(oldArtifactEvent)
		err = r.into(raw, in.ArtifactUpdate)
	default:
		err = problem("/kind", "is not one of task, message, status-update, artifact-update", "")
	}
	return in, err
}

func (r reader) eventToV1(raw []byte) (*newEvent, error) {
	in, err := r.oldEventOf(raw)
	if err != nil {
		return nil, err
	}
	out := &newEvent{}
	switch {
	case in.Task != nil:
		out.Task, err = r.taskToV1(in.Task)
	case in.Message != nil:
		out.Message, err = r.messageToV1(in.Message)
	case in.StatusUpdate != nil:
		out.StatusUpdate, err = r.statusEventToV1(in.StatusUpdate)
	default:
		out.ArtifactUpdate, err = r.artifactEventToV1(in.ArtifactUpdate)
	}
	return out, err
}

func (r reader) statusEventToV1(in *oldStatusEvent) (*newStatusEvent, error) {
	if err := unreserved(in.Metadata, KeyV03); err != nil {
		return nil, err
	}
	status, err := r.statusToV1(&in.Status)
	if err != nil {
		return nil, under("status", err)
	}
	out := &newStatusEvent{TaskID: in.TaskID, ContextID: in.ContextID, Status: status, Metadata: given(in.Metadata)}
	if final := in.Final != nil && *in.Final; final != ends(status.State) && (in.Final != nil || r.dialect == Proto) {
		out.Metadata, err = pack(out.Metadata, KeyV03, carriedV03{Final: &final})
	}
	return out, err
}

func (r reader) artifactEventToV1(in *oldArtifactEvent) (*newArtifactEvent, error) {
	artifact, err := r.artifactToV1(&in.Artifact)
	if err != nil {
		return nil, under("artifact", err)
	}
	return &newArtifactEvent{TaskID: in.TaskID, ContextID: in.ContextID, Artifact: artifact,
		Append: in.Append, LastChunk: in.LastChunk, Metadata: given(in.Metadata)}, nil
}

func (r reader) eventFromV1(in *newEvent, d Dialect) ([]byte, error) {
	out := oldEvent{}
	var bare any
	var err error
	switch {
	case in.Task != nil:
		out.Task, err = r.taskFromV1(in.Task, d)
		bare = out.Task
	case in.Message != nil:
		out.Message, err = r.messageFromV1(in.Message, d)
		bare = out.Message
	case in.StatusUpdate != nil:
		out.StatusUpdate, err = r.statusEventFromV1(in.StatusUpdate, d)
		bare = out.StatusUpdate
	default:
		out.ArtifactUpdate, err = r.artifactEventFromV1(in.ArtifactUpdate, d)
		bare = out.ArtifactUpdate
	}
	switch {
	case err != nil:
		return nil, err
	case d == RPC:
		return jsonwire.Marshal(bare)
	}
	return jsonwire.Marshal(out)
}

func (r reader) statusEventFromV1(in *newStatusEvent, d Dialect) (*oldStatusEvent, error) {
	if err := unreserved(in.Metadata, KeyV1); err != nil {
		return nil, err
	}
	out := &oldStatusEvent{TaskID: in.TaskID, ContextID: in.ContextID}
	var carried carriedV03
	var err error
	if out.Metadata, err = r.unpack(in.Metadata, KeyV03, &carried); err != nil {
		return nil, err
	}
	if out.Status, err = r.statusFromV1(&in.Status, d); err != nil {
		return nil, under("status", err)
	}
	out.Final = carried.Final
	if out.Final == nil {
		final := ends(in.Status.State)
		out.Final = &final
	}
	if d == RPC {
		out.Kind = kindStatus
	}
	return out, nil
}

func (r reader) artifactEventFromV1(in *newArtifactEvent, d Dialect) (*oldArtifactEvent, error) {
	artifact, err := r.artifactFromV1(&in.Artifact, d)
	if err != nil {
		return nil, under("artifact", err)
	}
	out := &oldArtifactEvent{TaskID: in.TaskID, ContextID: in.ContextID, Artifact: artifact,
		Append: in.Append, LastChunk: in.LastChunk, Metadata: given(in.Metadata)}
	if d == RPC {
		out.Kind = kindArtifact
	}
	return out, nil
}
