package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// unwinder takes down what was built, last first.
type unwinder struct {
	log   *slog.Logger
	steps []step
}

type step struct {
	what string
	undo func(ctx context.Context) error
}

// push notes how to take down what was just built; what reads after "stop: ".
func (u *unwinder) push(what string, undo func(ctx context.Context) error) {
	u.steps = append(u.steps, step{what, undo})
}

// unwind takes everything down within ctx's deadline. Every step runs, also
// after one that failed; a second unwind does nothing.
func (u *unwinder) unwind(ctx context.Context) error {
	var errs []error
	for len(u.steps) > 0 {
		last := u.steps[len(u.steps)-1]
		u.steps = u.steps[:len(u.steps)-1]
		start := time.Now()
		err := last.undo(ctx)
		u.log.Info("stop", "step", last.what, "elapsed", time.Since(start).Round(time.Millisecond), "err", err)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", last.what, err))
		}
	}
	return errors.Join(errs...)
}
