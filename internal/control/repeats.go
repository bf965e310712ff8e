package control

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
)

const idempotencyHeader = "Idempotency-Key"

// Bounds of what is remembered of answered writes.
const (
	maxIdempotencyKey = 255 // bytes of a key
	repeatFor         = 24 * time.Hour
	maxAnswerBytes    = 1 << 20 // of one; a larger one is not remembered
	// claimFor is after how long a write that has no answer may be repeated:
	// whoever was at it has died.
	claimFor = 2 * time.Minute
	// keepTimeout bounds the remembering of an answer.
	keepTimeout = 10 * time.Second
)

// Answers remembers what writes with an Idempotency-Key were answered, for all
// processes that serve the mesh.
type Answers interface {
	// ClaimAnswer begins a write, or gives the request that had the key first and
	// its answer, nil while that is under way.
	ClaimAnswer(ctx context.Context, principal parley.PrincipalName, owner parley.OwnerName, key string, request [32]byte, now, until time.Time) (claimed bool, first [32]byte, answer []byte, err error)
	KeepAnswer(ctx context.Context, principal parley.PrincipalName, owner parley.OwnerName, key string, answer []byte, until time.Time) error
	DropAnswer(ctx context.Context, principal parley.PrincipalName, key string) error
}

// answer is what is kept of an answered write.
type answer struct {
	Status int         `json:"status"`
	Header http.Header `json:"header"`
	Body   []byte      `json:"body"`
}

// repeat claims a key. It gives the first answer where there is one, and an
// error where the key is in use for something else.
func (s *Server) repeat(ctx context.Context, caller *identity.Caller, key string, request [32]byte) (*answer, error) {
	now := s.opts.Now()
	claimed, first, kept, err := s.opts.Answers.ClaimAnswer(ctx, caller.Name, caller.Owner, key, request, now, now.Add(claimFor))
	switch {
	case err != nil || claimed:
		return nil, err
	case first != request:
		return nil, conflictOnKey("was used for another request: use a fresh key for each")
	case kept == nil:
		return nil, conflictOnKey("belongs to a request that is still under way: wait and repeat it")
	}
	var a answer
	return &a, json.Unmarshal(kept, &a)
}

func conflictOnKey(problem string) error {
	return parley.E("control.repeat", parley.Conflict, "", "this Idempotency-Key "+problem, nil)
}

// remember keeps the answer to a claimed key. Only a success is worth keeping:
// what failed did nothing, and may be tried again under the same key.
func (s *Server) remember(ctx context.Context, caller *identity.Caller, key string, a answer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()
	err := func() error {
		if a.Status < 200 || a.Status > 299 || len(a.Body) > maxAnswerBytes {
			return s.opts.Answers.DropAnswer(ctx, caller.Name, key)
		}
		raw, err := json.Marshal(a)
		if err != nil {
			return err
		}
		return s.opts.Answers.KeepAnswer(ctx, caller.Name, caller.Owner, key, raw, s.opts.Now().Add(repeatFor))
	}()
	if err != nil { // the claim ends by itself
		s.opts.Log.Warn("the answer to a write is not remembered: repeated, it is done anew", "principal", caller.Name, "err", err)
	}
}

// serveOnce answers a write that carries an Idempotency-Key.
func (s *Server) serveOnce(w http.ResponseWriter, r *http.Request, caller *identity.Caller, body []byte) {
	given := r.Header.Get(idempotencyHeader)
	if len(given) > maxIdempotencyKey {
		s.fail(w, r, badParam(idempotencyHeader, fmt.Sprintf("is %d bytes long", len(given)), fmt.Sprintf("use at most %d", maxIdempotencyKey)))
		return
	}
	hashed := sha256.Sum256([]byte(given)) // it may hold any bytes
	key := hex.EncodeToString(hashed[:])
	first, err := s.repeat(r.Context(), caller, key, requestHash(r, body))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if first != nil {
		maps.Copy(w.Header(), first.Header)
		w.Header().Set("Idempotency-Replayed", "true")
		w.WriteHeader(first.Status)
		_, _ = w.Write(first.Body) // the reader has left: nobody to tell
		return
	}
	rec := &recorder{ResponseWriter: w, status: http.StatusInternalServerError}
	// Deferred, so that a panic gives the key back.
	defer func() {
		s.remember(r.Context(), caller, key, answer{rec.status, w.Header().Clone(), rec.body.Bytes()})
	}()
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
