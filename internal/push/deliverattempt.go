package push

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Poster sends webhooks.
type Poster interface {
	// Post sends body to url once, follows no redirect and gives the answer without
	// its body. An error says that none came, and its reason in words that may be
	// shown to the subscriber; errors.Is context.DeadlineExceeded where the time
	// was over.
	Post(ctx context.Context, url string, header map[string]string, body []byte) (Answer, error)
}

// Answer is a receiver's.
type Answer struct {
	Status     int
	RetryAfter string // the header, as it came
}

// Result is what came of an attempt.
type Result string

// The results.
const (
	Delivered Result = "delivered" // the receiver has it
	Skipped   Result = "skipped"   // the subscriber's version cannot express the event
	Gone      Result = "gone"      // the receiver wants no more: status 410
	Refused   Result = "refused"   // the receiver answered with another status than 2xx
	Failed    Result = "failed"    // no answer: not reached, not allowed, or too late
	Broken    Result = "broken"    // the mesh could not make the request
)

// attempted is what came of an attempt, for what follows.
type attempted struct {
	result     Result
	reason     string
	retryAfter time.Duration // what the receiver asked for; 0 for nothing
	slow       bool          // the attempt ran into its time limit
}

// Content types of what is sent.
const (
	typeV1  = "application/a2a+json"
	typeV03 = "application/json"
)

// attempt sends an event once.
func (d *Dispatcher) attempt(ctx context.Context, c *Claim, e Event) (got attempted) {
	begun := d.opts.Now()
	defer func() {
		if d.opts.Meter != nil && ctx.Err() == nil {
			now := d.opts.Now()
			d.opts.Meter.Attempt(ctx, string(got.result), now.Sub(begun), now.Sub(e.At))
		}
	}()
	body, kind, err := d.body(ctx, &c.Subscription, e)
	if err != nil {
		d.opts.Log.ErrorContext(ctx, "a push has no body", "subscription", c.ID, "seq", e.Seq, "err", err)
		return attempted{result: Broken, reason: "the mesh could not write the event"}
	}
	if body == nil {
		return attempted{result: Skipped}
	}
	header, err := d.headers(ctx, &c.Subscription, e, body)
	if err != nil {
		d.opts.Log.ErrorContext(ctx, "a push is not signed", "subscription", c.ID, "err", err)
		return attempted{result: Broken, reason: "the mesh could not sign the event"}
	}
	header["Content-Type"] = kind
	return d.send(ctx, c.URL, header, body)
}

// send posts once and judges the answer.
func (d *Dispatcher) send(ctx context.Context, url string, header map[string]string, body []byte) attempted {
	limited, cancel := context.WithTimeout(ctx, d.opts.Timeout)
	defer cancel()
	answer, err := d.opts.Post.Post(limited, url, header, body)
	switch {
	case err != nil:
		return attempted{result: Failed, reason: err.Error(), slow: errors.Is(err, context.DeadlineExceeded)}
	case answer.Status >= 200 && answer.Status <= 299:
		return attempted{result: Delivered}
	case answer.Status == 410:
		return attempted{result: Gone, reason: "the receiver answered 410 Gone"}
	}
	return attempted{
		result: Refused, reason: fmt.Sprintf("the receiver answered with status %d", answer.Status),
		retryAfter: retryAfter(answer.RetryAfter, d.opts.Now()),
	}
}

// body is an event as the subscriber's version writes it.
func (d *Dispatcher) body(ctx context.Context, s *Subscription, e Event) (body []byte, contentType string, err error) {
	if s.Version != "0.3" {
		return e.Frame, typeV1, nil
	}
	if d.opts.Body == nil {
		return nil, "", fmt.Errorf("version %s is not written here", s.Version)
	}
	body, err = d.opts.Body(ctx, s, e)
	return body, typeV03, err
}

// httpTimes are the forms of a date in HTTP (RFC 9110 section 5.6.7).
var httpTimes = []string{"Mon, 02 Jan 2006 15:04:05 GMT", "Monday, 02-Jan-06 15:04:05 MST", time.ANSIC}

// retryAfter reads the header Retry-After: seconds or a date; 0 where it is
// neither, or past.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if seconds, err := strconv.ParseInt(value, 10, 32); err == nil {
		return max(0, time.Duration(seconds)*time.Second)
	}
	for _, form := range httpTimes {
		if at, err := time.Parse(form, value); err == nil {
			return max(0, at.Sub(now))
		}
	}
	return 0
}
