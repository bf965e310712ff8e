package app

import (
	"context"
	"log"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// complaints takes what net/http has to say about connections. Failed TLS
// handshakes are the doing of whoever connects, and anybody can: they are counted
// and told in one line a minute, with the last one as an example.
type complaints struct {
	log *slog.Logger

	mu         sync.Mutex
	handshakes int    // since the last summary; guarded by mu
	last       string // guarded by mu
}

const complaintsEvery = time.Minute

// logger is what an http.Server logs to.
func (c *complaints) logger() *log.Logger { return log.New(c, "", 0) }

// Write takes one complaint.
func (c *complaints) Write(p []byte) (int, error) {
	line := strings.TrimSpace(string(p))
	// What strangers do wrong on a connection must not fill the log.
	c.log.Debug("connection not served well", "err", line)
	if what, ok := strings.CutPrefix(line, "http: TLS handshake error from "); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.handshakes++
		c.last = what
	}
	return len(p), nil
}

// run tells of failed handshakes until ctx ends, and once more then.
func (c *complaints) run(ctx context.Context) error {
	tick := time.NewTicker(complaintsEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.summarise()
		case <-ctx.Done():
			c.summarise()
			return nil
		}
	}
}

func (c *complaints) summarise() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handshakes == 0 {
		return
	}
	c.log.Warn("TLS handshakes failed", "count", c.handshakes, "last", c.last)
	c.handshakes, c.last = 0, ""
}
