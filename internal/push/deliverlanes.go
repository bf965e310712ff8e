package push

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// lanes bound what is under way, so that no receiver and no subscriber can take
// what others need: in all, at one host, and a quarter of one principal. Hosts that let an
// attempt run into its time limit get one attempt at a time until they answer
// again, and together no more than half of the room: the fast ones always have
// the other half.
type lanes struct {
	all, perHost, perPrincipal, slowAll int

	mu         sync.Mutex
	busy       map[string]bool // subscriptions
	hosts      map[string]int  // attempts under way
	principals map[parley.PrincipalName]int
	slow       map[string]bool // hosts
	slowBusy   int             // attempts at slow hosts
}

// maxSlowHosts bounds what is remembered of hosts; beyond it all are forgotten,
// which costs one time limit each to find out again.
const maxSlowHosts = 10_000

func newLanes(all, perHost int) *lanes {
	return &lanes{
		all: all, perHost: perHost, perPrincipal: max(1, all/4), slowAll: max(1, all/2),
		busy: map[string]bool{}, hosts: map[string]int{}, principals: map[parley.PrincipalName]int{}, slow: map[string]bool{},
	}
}

func (l *lanes) full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.busy) >= l.all
}

// enter takes a place for one delivery; leave gives it back, and tells whether
// the host was slow.
func (l *lanes) enter(d Due) (leave func(slow bool), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slow := l.slow[d.Host]
	switch {
	case len(l.busy) >= l.all, l.busy[d.Subscription],
		l.hosts[d.Host] >= l.perHost,
		l.principals[d.Principal] >= l.perPrincipal,
		slow && (l.hosts[d.Host] > 0 || l.slowBusy >= l.slowAll):
		return nil, false
	}
	l.busy[d.Subscription] = true
	l.hosts[d.Host]++
	l.principals[d.Principal]++
	if slow {
		l.slowBusy++
	}
	return func(isSlow bool) { l.leave(d, slow, isSlow) }, true
}

func (l *lanes) leave(d Due, wasSlow, isSlow bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.busy, d.Subscription)
	if l.hosts[d.Host]--; l.hosts[d.Host] == 0 {
		delete(l.hosts, d.Host)
	}
	if l.principals[d.Principal]--; l.principals[d.Principal] == 0 {
		delete(l.principals, d.Principal)
	}
	if wasSlow {
		l.slowBusy--
	}
	if !isSlow {
		delete(l.slow, d.Host)
		return
	}
	if len(l.slow) >= maxSlowHosts {
		clear(l.slow)
	}
	l.slow[d.Host] = true
}

// jitter is a random part of d.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}
