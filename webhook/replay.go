package webhook

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ReplayCache remembers which tokens were used. Receivers that run as several
// processes keep it where all of them look, such as a table with a unique key.
type ReplayCache interface {
	// Use notes the use of a token, and reports whether it is the first. It must
	// remember until that time. An error means that nobody knows: the delivery is
	// not taken.
	Use(ctx context.Context, id string, until time.Time) (first bool, err error)
}

// DefaultMemory is how many tokens a Memory remembers at once, unless told
// otherwise.
const DefaultMemory = 100_000

// Memory is a ReplayCache for one process. It is safe for concurrent use.
type Memory struct {
	max int
	now func() time.Time

	mu   sync.Mutex
	used map[string]time.Time // until when
}

// NewMemory makes a Memory of at most max tokens (0: DefaultMemory) by the clock
// now (nil: time.Now).
func NewMemory(max int, now func() time.Time) *Memory {
	if max <= 0 {
		max = DefaultMemory
	}
	if now == nil {
		now = time.Now
	}
	return &Memory{max: max, now: now, used: map[string]time.Time{}}
}

// errFull is what a Memory answers that has no room: to forget a token that is
// still valid would let it be used again.
var errFull = errors.New("webhook: more tokens are in use than can be remembered")

// Use implements ReplayCache.
func (m *Memory) Use(_ context.Context, id string, until time.Time) (first bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if kept, ok := m.used[id]; ok && now.Before(kept) {
		return false, nil
	}
	if len(m.used) >= m.max {
		for id, until := range m.used {
			if !now.Before(until) {
				delete(m.used, id)
			}
		}
		if len(m.used) >= m.max {
			return false, errFull
		}
	}
	m.used[id] = until
	return true, nil
}
