package a2a

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Paths of the public card below an agent's address. The second is for clients
// older than 0.3.
const (
	CardPath       = "/.well-known/agent-card.json"
	LegacyCardPath = "/.well-known/agent.json"
)

// Handler answers operations.
type Handler interface {
	// Handle answers one checked request. ctx ends when the caller goes away;
	// work that must go on afterwards needs a context of its own. The Reply is
	// never nil.
	Handle(ctx context.Context, q *Request) *Reply
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context, q *Request) *Reply

// Handle calls the function.
func (f HandlerFunc) Handle(ctx context.Context, q *Request) *Reply { return f(ctx, q) }

// Server serves one agent in both HTTP bindings at one address, with its card. It
// is an http.Handler that expects paths relative to that address (see
// http.StripPrefix).
type Server struct {
	Handler Handler
	// Card returns the public card. nil serves none.
	Card    func(r *http.Request) ([]byte, error)
	CardAge time.Duration // max-age of the card; 0 means DefaultCardAge
	Options ServerOptions
	Log     *slog.Logger // failures of writing and of the card; nil for none
}

// DefaultCardAge is how long a card may be cached without asking again.
const DefaultCardAge = 5 * time.Minute

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	if s.Card != nil && (path == CardPath || path == LegacyCardPath) {
		s.serveCard(w, r)
		return
	}
	q, err := Open(r, path, s.Options)
	if err == nil {
		err = q.ReadFrom(w, r)
	}
	var rep *Reply
	if err != nil {
		rep = Fail(err)
	} else {
		rep = s.Handler.Handle(r.Context(), q)
	}
	if _, err := Respond(r.Context(), w, q, rep, s.Options); err != nil && r.Context().Err() == nil {
		s.log("answer not delivered", err)
	}
}

func (s *Server) serveCard(w http.ResponseWriter, r *http.Request) {
	raw, err := s.Card(r)
	if err != nil {
		s.log("card not served", err)
		http.Error(w, "the agent card is not available", http.StatusServiceUnavailable)
		return
	}
	age := s.CardAge
	if age == 0 {
		age = DefaultCardAge
	}
	if err := ServeDocument(w, r, raw, "public, max-age="+strconv.Itoa(int(age/time.Second))); err != nil {
		s.log("card not delivered", err)
	}
}

func (s *Server) log(message string, err error) {
	if s.Log != nil {
		s.Log.Warn(message, "err", err) //nolint:sloglint callers pass constants
	}
}

// ServeDocument answers GET and HEAD for a JSON document such as a card, with an ETag made of its content, and
// 304 to a caller who has it. cacheControl is sent as it is.
func ServeDocument(w http.ResponseWriter, r *http.Request, raw []byte, cacheControl string) error {
	h := w.Header()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "this document is read with GET", http.StatusMethodNotAllowed)
		return nil
	}
	tag := CardTag(raw)
	h.Set("ETag", tag)
	h.Set("Cache-Control", cacheControl)
	if tagMatches(r.Header.Values("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	h.Set("Content-Type", mediaJSON)
	h.Set("Content-Length", strconv.Itoa(len(raw)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	if _, err := w.Write(raw); err != nil {
		return fmt.Errorf("write document: %w", err)
	}
	return nil
}

// CardTag is the strong ETag of a card: equal bytes, equal tag.
func CardTag(raw []byte) string {
	sum := sha256.Sum256(raw)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// tagMatches compares weakly, as If-None-Match asks.
func tagMatches(lines []string, tag string) bool {
	for _, line := range lines {
		for one := range strings.SplitSeq(line, ",") {
			one = strings.TrimPrefix(strings.TrimSpace(one), "W/")
			if one == tag || one == "*" {
				return true
			}
		}
	}
	return false
}

// ChanStream is a Stream that a handler feeds. The feeder sends frames on the
// channel and closes it after the last; it stops sending when Done is closed.
type ChanStream struct {
	frames <-chan Frame
	done   chan struct{}
	closed func()
}

// NewChanStream makes a stream of a channel.
func NewChanStream(frames <-chan Frame) *ChanStream {
	s := &ChanStream{frames: frames, done: make(chan struct{})}
	s.closed = sync.OnceFunc(func() { close(s.done) })
	return s
}

// Done is closed when nobody reads the stream any more.
func (s *ChanStream) Done() <-chan struct{} { return s.done }

// Next implements Stream.
func (s *ChanStream) Next(ctx context.Context) (Frame, error) {
	select {
	case f, ok := <-s.frames:
		if !ok {
			return Frame{}, io.EOF
		}
		return f, nil
	case <-ctx.Done():
		return Frame{}, ctx.Err()
	case <-s.done:
		return Frame{}, errClosed
	}
}

// Close implements Stream.
func (s *ChanStream) Close() error { s.closed(); return nil }

var errClosed = errors.New("a2a: stream closed")
