// Package limit bounds how often somebody may ask: one allowance per principal
// or per remote host. It decides and counts; what is said to whoever asks too
// often is the gateway's.
//
// The tables are bounded. Whoever finds no place in a full one shares an
// allowance with the others who found none, so that a flood of names cannot
// make the process grow, and can only slow other newcomers.
package limit

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rate is an allowance: so many requests a second over time, and so many at
// once.
type Rate struct {
	PerSecond int
	Burst     int
}

// Exceeded is the cause of a refusal: how long to wait before asking again.
type Exceeded struct {
	RetryAfter time.Duration
}

// Error names the wait; it is for logs.
func (e *Exceeded) Error() string { return fmt.Sprintf("retry after %s", e.RetryAfter) }

// RetryAfter is how long whoever got err should wait; 0 where err is no refusal
// of this package.
func RetryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*Exceeded](err); ok {
		return e.RetryAfter
	}
	return 0
}

// Buckets are the allowances of many. Safe for concurrent use.
type Buckets[K comparable] struct {
	rate Rate
	most int

	mu       sync.Mutex
	by       map[K]*bucket // guarded by mu
	overflow *bucket       // shared by keys that found no place
	swept    time.Time     // guarded by mu
}

// bucket is the allowance of one key.
type bucket struct {
	tokens *rate.Limiter
	told   time.Time // guarded by Buckets.mu
}

// NewBuckets makes a table of at most so many allowances.
func NewBuckets[K comparable](r Rate, most int) *Buckets[K] {
	b := &Buckets[K]{rate: r, most: most, by: map[K]*bucket{}}
	b.overflow = b.fresh()
	return b
}

func (b *Buckets[K]) fresh() *bucket {
	return &bucket{tokens: rate.NewLimiter(rate.Limit(b.rate.PerSecond), b.rate.Burst)}
}

const (
	// sweepEvery is how often a full table is searched for entries to drop, so
	// that a flood of keys does not make each request expensive.
	sweepEvery = time.Second
	// tellEvery is how often it is said of one key that it asks too often.
	tellEvery = time.Minute
)

// Take takes one request from the key's allowance. Where nothing is left, err
// says how long to wait, and tell is set if nobody was told of this key for a
// minute: then it is worth a line.
func (b *Buckets[K]) Take(key K, now time.Time) (err *Exceeded, tell bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.place(key, now)
	if one.tokens.AllowN(now, 1) {
		return nil, false
	}
	if now.Sub(one.told) >= tellEvery {
		one.told, tell = now, true
	}
	missing := 1 - one.tokens.TokensAt(now)
	wait := math.Ceil(missing / float64(b.rate.PerSecond) * float64(time.Second))
	return &Exceeded{RetryAfter: max(time.Duration(wait), time.Millisecond)}, tell
}

// place is the bucket of a key, made if there is room. b.mu is held.
func (b *Buckets[K]) place(key K, now time.Time) *bucket {
	if one := b.by[key]; one != nil {
		return one
	}
	if len(b.by) >= b.most {
		b.sweep(now)
	}
	if len(b.by) >= b.most {
		return b.overflow
	}
	one := b.fresh()
	b.by[key] = one
	return one
}

// sweep drops the keys whose allowance is whole again and of whom nothing was
// told lately: an entry made anew would be the same. b.mu is held.
func (b *Buckets[K]) sweep(now time.Time) {
	if now.Sub(b.swept) < sweepEvery {
		return
	}
	b.swept = now
	for key, one := range b.by {
		if one.tokens.TokensAt(now) >= float64(b.rate.Burst) && now.Sub(one.told) >= tellEvery {
			delete(b.by, key)
		}
	}
}

// HostOf is what one remote host counts as: its IPv4 address, or its IPv6 /64,
// which is what one host is given. remote is "ip:port"; what cannot be read is
// the zero value, which is an address like any other here.
func HostOf(remote string) netip.Addr {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	addr := ap.Addr().Unmap().WithZone("")
	if addr.Is6() {
		if p, err := addr.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return addr
}
