package cli

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// progressAfter is how long something may take before it is said that it is
// under way.
const progressAfter = time.Second

// patient is a transport that tells on a terminal whom an answer is awaited
// from.
type patient struct {
	p    *program
	next http.RoundTripper
	whom string
}

// RoundTrip implements http.RoundTripper. It returns when an answer begins,
// and so the telling never mixes with what the answer prints.
func (t patient) RoundTrip(r *http.Request) (*http.Response, error) {
	stop := t.p.progress("waiting for " + t.whom)
	defer stop()
	return t.next.RoundTrip(r)
}

// progress tells on a terminal what is waited for once it takes over a second;
// stop takes the line away again and returns when that is done.
func (p *program) progress(what string) (stop func()) {
	return p.progressing(func() string { return what })
}

// progressing is progress with a text of each moment.
func (p *program) progressing(what func() string) (stop func()) {
	if _, ok := terminal(p.Err); !ok || p.flags.quiet {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	start := time.Now()
	go func() { // ends with stop
		defer close(ended)
		tick := time.NewTicker(progressAfter)
		defer tick.Stop()
		shown := false
		for {
			select {
			case <-tick.C:
				fmt.Fprintf(p.Err, "\r\x1b[K%s… %ds", cleanLine(what()), int(time.Since(start).Seconds()))
				shown = true
			case <-done:
				if shown {
					fmt.Fprint(p.Err, "\r\x1b[K")
				}
				return
			}
		}
	}()
	return sync.OnceFunc(func() { close(done); <-ended })
}

// counter counts what is written.
type counter struct {
	io.Writer
	n      atomic.Int64
	failed error // the first of the writer below; read by whoever writes
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n.Add(int64(n))
	if c.failed == nil {
		c.failed = err
	}
	return n, err
}

// counting is progress with how much was written.
func (p *program) counting(what string, c *counter) (stop func()) {
	return p.progressing(func() string {
		if n := c.n.Load(); n > 0 {
			return fmt.Sprintf("%s, %d MiB", what, n>>20)
		}
		return what
	})
}
