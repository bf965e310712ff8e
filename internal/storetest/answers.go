package storetest

import (
	"testing"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
)

// The answer to a write is given again to who repeats it, and to nobody else.
func testAnswers(t *testing.T, s Store) {
	ctx := t.Context()
	addOwner(t, s, "alpha")
	p := &identity.Principal{Name: "alice", Owner: "alpha", Environment: parley.Dev, CreatedAt: at(0)}
	must(t, s.SavePrincipal(ctx, p))
	request := [32]byte{1}
	claim := func(what string, who parley.PrincipalName, key string, second int, claimed bool, answer string) {
		t.Helper()
		mine, first, kept, err := s.ClaimAnswer(ctx, who, "alpha", key, request, at(second), at(second+60))
		if err != nil || mine != claimed || string(kept) != answer || !claimed && first != request {
			t.Errorf("%s: claimed %t, first %x, answer %q, %v; want %t and %q", what, mine, first[:2], kept, err, claimed, answer)
		}
	}
	claim("first", "alice", "k", 0, true, "")
	claim("while it is under way", "alice", "k", 1, false, "")
	must(t, s.DropAnswer(ctx, "alice", "k"))
	claim("after it failed", "alice", "k", 2, true, "")
	must(t, s.KeepAnswer(ctx, "alice", "alpha", "k", []byte("made"), at(1000)))
	must(t, s.DropAnswer(ctx, "alice", "k")) // an answer is not given back
	claim("repeated", "alice", "k", 3, false, "made")
	claim("another's", "bob", "k", 3, true, "")
	claim("another key", "alice", "l", 3, true, "")
	claim("once whoever was at it has died", "alice", "l", 100, true, "")
	claim("once its time is over", "alice", "k", 1001, true, "")
	must(t, s.KeepAnswer(ctx, "alice", "alpha", "k", []byte("secret"), at(5000)))
	must(t, s.DeletePrincipal(ctx, "alice", p.Version))
	claim("whoever has the name next", "alice", "k", 1002, true, "")
}
