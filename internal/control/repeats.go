package control

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
)

const idempotencyHeader = "Idempotency-Key"

// Bounds of what is remembered of answered writes. It is kept in memory: after
// a restart, or where a bound pushes an answer out, a repeated write is done
// anew, and unique names are what keeps most of them from doing harm.
const (
	maxIdempotencyKey = 255 // bytes of a key
	repeatFor         = 24 * time.Hour
	maxRepeats        = 4096
	maxRepeatBytes    = 16 << 20 // all remembered answers together
	maxAnswerBytes    = 1 << 20  // of one; a larger one is not remembered
)

// repeatKey names one write of one principal.
type repeatKey struct {
	principal parley.PrincipalName
	key       string
}

// answer is a remembered write: under way while done is false.
type answer struct {
	request [32]byte // what was asked: method, path, query, body
	done    bool
	until   time.Time
	status  int
	header  http.Header
	body    []byte
}

// repeats remembers answered writes, oldest first out.
type repeats struct {
	now func() time.Time

	mu    sync.Mutex
	known map[repeatKey]*answer
	order []repeatKey // done ones, by when they were answered
	bytes int
}

func newRepeats(now func() time.Time) *repeats {
	return &repeats{now: now, known: make(map[repeatKey]*answer)}
}

// begin claims a key. It gives the first answer where there is one, and an
// error where the key is in use for something else.
func (s *repeats) begin(k repeatKey, request [32]byte) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
	a, ok := s.known[k]
	switch {
	case !ok:
		if len(s.known)-len(s.order) >= maxRepeats {
			return nil, parley.E("control.repeat", parley.Exhausted, "", "too many writes with an Idempotency-Key are under way: try again", nil)
		}
		s.known[k] = &answer{request: request}
		return nil, nil
	case a.request != request:
		return nil, conflictOnKey("was used for another request: use a fresh key for each")
	case !a.done:
		return nil, conflictOnKey("belongs to a request that is still under way: wait and repeat it")
	}
	return a, nil
}

func conflictOnKey(problem string) error {
	return parley.E("control.repeat", parley.Conflict, "", "this Idempotency-Key "+problem, nil)
}

// end keeps the answer to a claimed key. Only a success is worth keeping: what
// failed did nothing, and may be tried again under the same key.
func (s *repeats) end(k repeatKey, status int, header http.Header, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.known[k]
	if a == nil {
		return
	}
	if status < 200 || status > 299 || len(body) > maxAnswerBytes {
		delete(s.known, k)
		return
	}
	a.done, a.until, a.status, a.header, a.body = true, s.now().Add(repeatFor), status, header, body
	s.order = append(s.order, k)
	s.bytes += len(body)
	s.forget()
}

// forget drops answers that are too old or too many.
func (s *repeats) forget() {
	now := s.now()
	for len(s.order) > 0 {
		oldest := s.known[s.order[0]]
		if now.Before(oldest.until) && len(s.order) <= maxRepeats && s.bytes <= maxRepeatBytes {
			return
		}
		s.bytes -= len(oldest.body)
		delete(s.known, s.order[0])
		s.order = s.order[1:]
	}
}

// serveOnce answers a write that carries an Idempotency-Key.
func (s *Server) serveOnce(w http.ResponseWriter, r *http.Request, caller *identity.Caller, body []byte) {
	key := r.Header.Get(idempotencyHeader)
	if len(key) > maxIdempotencyKey {
		s.fail(w, r, badParam(idempotencyHeader, fmt.Sprintf("is %d bytes long", len(key)), fmt.Sprintf("use at most %d", maxIdempotencyKey)))
		return
	}
	k := repeatKey{caller.Name, key}
	first, err := s.repeats.begin(k, requestHash(r, body))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if first != nil {
		maps.Copy(w.Header(), first.header)
		w.Header().Set("Idempotency-Replayed", "true")
		w.WriteHeader(first.status)
		_, _ = w.Write(first.body) // the reader has left: nobody to tell
		return
	}
	rec := &recorder{ResponseWriter: w, status: http.StatusInternalServerError}
	// Deferred, so that a panic gives the key back.
	defer func() { s.repeats.end(k, rec.status, w.Header().Clone(), rec.body.Bytes()) }()
	s.mux.ServeHTTP(rec, r)
}

// requestHash is what must be the same for a request to be the same.
func requestHash(r *http.Request, body []byte) [32]byte {
	h := sha256.New()
	fmt.Fprintf(h, "%s %s\n", r.Method, r.URL.RequestURI())
	h.Write(body)
	return [32]byte(h.Sum(nil))
}

// recorder passes an answer on and keeps it.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	if r.body.Len() <= maxAnswerBytes {
		r.body.Write(b)
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
