package cli

import (
	"fmt"
	"net/http"
	"sync"
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
	if _, ok := terminal(p.Err); !ok || p.flags.quiet {
		return func() {}
	}
	what = cleanLine(what)
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
				fmt.Fprintf(p.Err, "\r\x1b[K%s… %ds", what, int(time.Since(start).Seconds()))
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
