package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/identity"
)

// Who gave up on a write is told nothing of it: the writer may be at it still. The
// race detector shows what is told all the same.
func testGivenUpWrites(t *testing.T, s Store) {
	task := taskOf(t, s, "alice", "t")
	subscribe(t, s, "alice", task, "x")
	r, err := s.Relay(t.Context(), task)
	must(t, err)
	gone, leave := context.WithCancel(t.Context())
	leave()
	for name, write := range map[string]func() (bool, error){
		"ClaimRelay":   func() (bool, error) { mine := *r; return s.ClaimRelay(gone, &mine, at(100)) },
		"SaveUpstream": func() (bool, error) { mine := *r; return s.SaveUpstream(gone, &mine) },
		"DropRelay":    func() (bool, error) { return s.DropRelay(gone, task) },
		"ClaimAnswer": func() (bool, error) {
			claimed, _, _, err := s.ClaimAnswer(gone, "alice", "alpha", "k", [32]byte{}, at(1), at(60))
			return claimed, err
		},
	} {
		for range 50 {
			if told, err := write(); told && err != nil {
				t.Errorf("%s: an error, %v, and an outcome as well", name, err)
			}
		}
	}
	// All of them are behind the writer before the store is closed.
	must(t, s.SaveOwner(t.Context(), &identity.Owner{Name: "last", CreatedAt: time.Now(), Version: 0}))
}
