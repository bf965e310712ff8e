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
// after one that failed; a second unwind does nothing. level is what steps that
// went well are logged at: a start that failed has one line that matters, and
// it is not among them.
func (u *unwinder) unwind(ctx context.Context, level slog.Level) error {
	var errs []error
	for len(u.steps) > 0 {
		last := u.steps[len(u.steps)-1]
		u.steps = u.steps[:len(u.steps)-1]
		start := time.Now()
		err := last.undo(ctx)
		elapsed := time.Since(start).Round(time.Millisecond)
		if err != nil {
			u.log.Warn("stop: a step failed", "step", last.what, "elapsed", elapsed, "err", err)
			errs = append(errs, fmt.Errorf("%s: %w", last.what, err))
			continue
		}
		u.log.Log(ctx, level, "stop", "step", last.what, "elapsed", elapsed)
	}
	return errors.Join(errs...)
}
