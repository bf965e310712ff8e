package identity

import (
	"sync"
	"time"
)

// keyCache remembers verified keys by the hash of their text. An entry counts
// only while its generation is the current one and its key has not expired.
type keyCache struct {
	limit int

	mu      sync.RWMutex
	current uint64
	keys    map[[32]byte]cachedKey
}

type cachedKey struct {
	caller     *Caller
	expires    time.Time // zero: never
	generation uint64
}

func (c *keyCache) generation() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.current
}

// get gives the caller of a verified key, or nil.
func (c *keyCache) get(hash [32]byte, now time.Time) *Caller {
	c.mu.RLock()
	k, ok := c.keys[hash]
	c.mu.RUnlock()
	if !ok || !k.expires.IsZero() && !now.Before(k.expires) {
		return nil
	}
	return k.caller
}

// put remembers k unless something changed since its generation. A full cache
// loses an arbitrary entry: with more keys than places no order is better than
// none.
func (c *keyCache) put(hash [32]byte, k cachedKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.generation != c.current {
		return
	}
	if c.keys == nil {
		c.keys = make(map[[32]byte]cachedKey)
	}
	if _, known := c.keys[hash]; !known && len(c.keys) >= c.limit {
		for victim := range c.keys {
			delete(c.keys, victim)
			break
		}
	}
	c.keys[hash] = k
}

// invalidate starts a new generation and drops what the old one knew.
func (c *keyCache) invalidate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current++
	clear(c.keys)
}
