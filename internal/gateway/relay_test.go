package gateway

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mesh/parley/internal/push"
)

// readOnly is a push store that can be read and not written.
type readOnly struct {
	PushStore
	looks int
}

func (s *readOnly) DueRelays(_ context.Context, _ time.Time, limit int) ([]*push.Relay, error) {
	if s.looks++; s.looks > 1000 {
		return nil, nil // enough has been seen
	}
	due := make([]*push.Relay, limit)
	for i := range due {
		due[i] = &push.Relay{}
	}
	return due, nil
}

func (s *readOnly) ClaimRelay(context.Context, *push.Relay, time.Time) (bool, error) {
	return false, errors.New("the disk is full")
}

// More work is due than can be begun at once, and none of it can be claimed: the
// store is not asked without pause.
func TestRelaysWaitForAStoreThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &readOnly{}
		g := &Gateway{Options: Options{Push: &PushOptions{Store: s}, Now: time.Now, Log: slog.New(slog.DiscardHandler)}, relays: newRelays()}
		ctx, cancel := context.WithTimeout(t.Context(), 10*relayPoll)
		defer cancel()
		g.runRelays(ctx)
		if s.looks > 12 {
			t.Errorf("%d looks in %s, want one each %s", s.looks, 10*relayPoll, relayPoll)
		}
	})
}
