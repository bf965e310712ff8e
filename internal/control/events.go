package control

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
)

// EventReader reads the mesh's one feed.
type EventReader interface {
	// Events gives the events behind a place, in order, at most limit.
	Events(ctx context.Context, after int64, limit int) ([]parley.Event, error)
	// LastSeq is the place of the newest event; 0 if there is none.
	LastSeq(ctx context.Context) (int64, error)
	// Follow gives the events behind a place and then those that are committed,
	// in order, each once, until ctx is done or it yields an error.
	Follow(ctx context.Context, after int64) iter.Seq2[parley.Event, error]
}

// Event is one change of state in the JSON format of CloudEvents 1.0. The
// envelope is a struct of ours and not the SDK's type: it is nine attributes
// that we only write, and the SDK's brings a second JSON library.
type Event struct {
	SpecVersion     string             `json:"specversion" doc:"1.0"`
	ID              string             `json:"id" doc:"The place in the feed, as sequence."`
	Source          string             `json:"source" doc:"The mesh."`
	Type            string             `json:"type" doc:"kind.verb, as agent.added."`
	Subject         string             `json:"subject" doc:"kind/name, as agents/echo."`
	Time            time.Time          `json:"time"`
	ContentType     string             `json:"datacontenttype"`
	Data            json.RawMessage    `json:"data,omitempty"`
	Sequence        string             `json:"sequence" doc:"Decimal; grows, with gaps."`
	SubjectSequence string             `json:"subjectsequence" doc:"Decimal; counts the subject's events without gaps."`
	Owner           parley.OwnerName   `json:"owner,omitempty"`
	Environment     parley.Environment `json:"environment,omitempty"`
}

// Place is the event's place in the feed, to go on after.
func (e *Event) Place() int64 {
	n, err := strconv.ParseInt(e.Sequence, 10, 64)
	if err != nil { // not an event of ours
		return 0
	}
	return n
}

func (s *Server) eventOf(e *parley.Event) Event {
	place := strconv.FormatInt(e.Seq, 10)
	return Event{
		SpecVersion: "1.0", ID: place, Source: "urn:parley:" + s.opts.MeshID, Type: e.Type, Subject: e.Subject,
		Time: e.Time.UTC(), ContentType: "application/json", Data: rawJSON(e.Data), Sequence: place,
		SubjectSequence: strconv.FormatInt(e.SubjectSeq, 10), Owner: e.Owner, Environment: e.Environment,
	}
}

func (s *Server) eventRoutes() {
	type list struct {
		After int64 `query:"after" minimum:"0" doc:"Place in the feed; events behind it are given."`
		Paging
	}
	route(s, operation("listEvents", "GET", "/events", "List events, oldest first", 200),
		func(ctx context.Context, in *list) (*listed[Event], error) {
			at, err := in.place("events", 1)
			if err != nil {
				return nil, err
			}
			if at[0] != "" {
				if in.After, err = strconv.ParseInt(at[0], 10, 64); err != nil || in.After < 0 {
					return nil, badParam("cursor", "is not a cursor of this list", "pass next of the page before, unchanged")
				}
			}
			events, err := s.opts.Events.Events(ctx, in.After, in.Limit+1)
			refs := make([]*parley.Event, len(events))
			for i := range events {
				refs[i] = &events[i]
			}
			return page(refs, in.Limit, s.eventOf, func(e *parley.Event) string {
				return cursorOf("events", strconv.FormatInt(e.Seq, 10))
			}), err
		})
	op := operation("streamEvents", "GET", "/events/stream", "Follow events as server-sent events", 200)
	op.Description = "Each message is one event: id is its place, event its type, data its CloudEvents JSON. " +
		"Starts behind Last-Event-ID, else behind after, else with what happens from now on."
	op.Responses = map[string]*huma.Response{
		"200":     {Description: "The stream; it ends when the mesh stops or the caller may no longer read it.", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: "string"}}}},
		"default": {Description: "Error", Content: map[string]*huma.MediaType{ProblemType: {Schema: &huma.Schema{Ref: "#/components/schemas/Problem"}}}},
	}
	route(s, op, s.streamEvents)
}

// placeComment opens every stream and tells where it starts.
const placeComment = ": events behind "

type streamInput struct {
	After       int64  `query:"after" default:"-1" minimum:"-1" doc:"Place in the feed to start behind; -1 means from now on."`
	LastEventID string `header:"Last-Event-ID" maxLength:"20"`
}

type streamOutput struct{ Body func(huma.Context) }

// streamEvents opens a stream.
func (s *Server) streamEvents(ctx context.Context, in *streamInput) (*streamOutput, error) {
	after := in.After
	if in.LastEventID != "" {
		n, err := strconv.ParseInt(in.LastEventID, 10, 64)
		if err != nil || n < 0 {
			return nil, badParam("Last-Event-ID", "is not the id of an event", "send the id of the last event that was read, a number")
		}
		after = n
	}
	if after < 0 {
		last, err := s.opts.Events.LastSeq(ctx)
		if err != nil {
			return nil, err
		}
		after = last
	}
	select {
	case s.streams <- struct{}{}:
	default:
		return nil, parley.E("control.stream", parley.Exhausted, "", fmt.Sprintf("%d event streams are open, which is the limit: end one", maxStreams), nil)
	}
	return &streamOutput{Body: func(hctx huma.Context) {
		defer func() { <-s.streams }()
		r, w := humago.Unwrap(hctx)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Accel-Buffering", "no")
		w.WriteHeader(http.StatusOK)
		s.follow(r, &sender{w: w, conn: http.NewResponseController(w)}, after)
	}}, nil
}

// follow sends events until the reader leaves, the mesh stops, or the caller
// may no longer read: what a stream was opened with is proven again all along.
func (s *Server) follow(r *http.Request, out *sender, after int64) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	feed := make(chan parley.Event, maxLimit)
	go func() { // ends with ctx, or before it with the feed
		defer close(feed)
		s.pump(ctx, after, feed)
	}()
	alive := time.NewTicker(keepAliveEvery)
	defer alive.Stop()
	ok := out.send(placeComment + strconv.FormatInt(after, 10) + "\n\n")
	for ok {
		select {
		case e, more := <-feed:
			if !more || !s.stillReads(r) {
				return
			}
			ok = out.write(s.message(&e)) && (len(feed) > 0 || out.flush())
		case <-alive.C:
			ok = s.stillReads(r) && out.send(": alive\n\n")
		case <-ctx.Done():
			return
		}
	}
}

// pump moves events from the mesh's feed into feed.
func (s *Server) pump(ctx context.Context, after int64, feed chan<- parley.Event) {
	for e, err := range s.opts.Events.Follow(ctx, after) {
		if err != nil {
			if ctx.Err() == nil {
				s.log(ctx, "streamEvents", err)
			}
			return
		}
		select {
		case feed <- e:
		case <-ctx.Done():
			return
		}
	}
}

// message is one event as the stream has it.
func (s *Server) message(e *parley.Event) string {
	body, err := json.Marshal(s.eventOf(e))
	if err != nil { // strings, times and valid JSON always encode
		panic(err)
	}
	return fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", e.Seq, e.Type, body)
}

// stillReads reports whether the caller of a stream may go on reading.
func (s *Server) stillReads(r *http.Request) bool {
	caller, err := s.opts.Identity.Identify(r.Context(), credentialOf(r))
	return err == nil && RoleTable["streamEvents"].reachOf(caller.Roles) == ReachAll && caller.Name == identity.CallerFrom(r.Context()).Name
}

// sender writes a stream; a reader that does not take it in time is left.
type sender struct {
	w    http.ResponseWriter
	conn *http.ResponseController
}

func (o *sender) write(text string) bool {
	// A writer that knows no deadlines is a test's.
	_ = o.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := o.w.Write([]byte(text))
	return err == nil
}

func (o *sender) flush() bool { return o.conn.Flush() == nil }

func (o *sender) send(text string) bool { return o.write(text) && o.flush() }
