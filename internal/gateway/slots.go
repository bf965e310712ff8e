package gateway

import (
	"sync"

	"github.com/parley-mesh/parley/internal/parley"
)

// streamSlots counts the open streams, in all and of each principal.
type streamSlots struct {
	mu  sync.Mutex
	all int                          // guarded by mu
	of  map[parley.PrincipalName]int // guarded by mu
}

// take asks for one more stream; false where a limit is reached.
func (s *streamSlots) take(p parley.PrincipalName, l Limits) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= l.Streams || s.of[p] >= l.StreamsPerPrincipal {
		return false
	}
	s.all++
	s.of[p]++
	return true
}

// give returns a stream.
func (s *streamSlots) give(p parley.PrincipalName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.of[p]--; s.of[p] == 0 {
		delete(s.of, p)
	}
}
