package webhook

import (
	"context"
	"errors"
	"net/http"
	"sync"
)

// ErrGone, returned by the function of a Handler, ends the subscription: the mesh
// is answered with 410 and sends nothing more.
var ErrGone = errors.New("webhook: no more pushes are wanted")

// remembered is how many events a Handler remembers to know repeats by.
const remembered = 10_000

// Handler verifies deliveries and passes them to take, one call for each event:
// a repeat of one that take has accepted of late is acknowledged without asking
// it again. The memory of that is this process's; take should be idempotent by
// Delivery.ID where several share the work.
//
// The mesh is answered with 204 where take returns nil, with 410 where it returns
// ErrGone, and with 500 on any other error: then the event comes again. What
// cannot be verified is answered with a status of 4xx and no reason; Config.Refused
// is told it.
func (v *Verifier) Handler(take func(ctx context.Context, d *Delivery) error) http.Handler {
	seen := &recent{known: map[string]bool{}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		d, err := v.Verify(r)
		if err == nil && !seen.has(d.ID) {
			if err = take(r.Context(), d); err == nil {
				seen.add(d.ID)
			}
		} else if err != nil && v.config.Refused != nil {
			v.config.Refused(r, err)
		}
		w.WriteHeader(statusOf(err))
	})
}

// statusOf is how the mesh is answered.
func statusOf(err error) int {
	switch {
	case err == nil:
		return http.StatusNoContent
	case errors.Is(err, ErrGone):
		return http.StatusGone
	case errors.Is(err, ErrRefused):
		return http.StatusUnauthorized
	case errors.Is(err, ErrReplay):
		return http.StatusConflict
	case errors.Is(err, ErrTooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, ErrUnavailable):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// recent is a set of the ids added last.
type recent struct {
	mu    sync.Mutex
	known map[string]bool
	order []string // ring of the known ones
	next  int
}

func (r *recent) has(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[id]
}

func (r *recent) add(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known[id] {
		return
	}
	if len(r.order) < remembered {
		r.order = append(r.order, id)
	} else {
		delete(r.known, r.order[r.next])
		r.order[r.next] = id
		r.next = (r.next + 1) % remembered
	}
	r.known[id] = true
}
