package upstream

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/parley-mesh/parley/internal/netguard"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// Times and limits of tokens.
const (
	// DefaultTimeout bounds one exchange with a token endpoint.
	DefaultTimeout = 10 * time.Second

	// A token is replaced after this part of its life, give or take the jitter:
	// ahead of its end, and not by all replicas in the same second.
	refreshAfter  = 0.8
	refreshJitter = 0.1
	// lateBy is how long before its end a token is no longer shown: it must not
	// end on the way, and clocks differ.
	lateBy = 5 * time.Second

	// A failed exchange is not repeated for firstPause, which doubles up to
	// lastPause: a broken endpoint is not asked once per call.
	firstPause = time.Second
	lastPause  = 30 * time.Second

	// An agent that refuses fresh tokens must not make the mesh hammer the
	// endpoint: renewals after a 401 are renewalBurst at once, and then one
	// every renewalEvery.
	renewalBurst = 4
	renewalEvery = 5 * time.Second

	// sweepAbove is from how many held tokens on those are dropped that nobody
	// asked for in idleAfter.
	sweepAbove = 1024
	idleAfter  = time.Hour
)

// Fetcher asks a token endpoint; see netguard.FetchClient.
type Fetcher interface {
	Fetch(ctx context.Context, url string, r netguard.Request) (*netguard.Response, error)
}

// Options are what Tokens works with.
type Options struct {
	Guard   *netguard.Guard // required
	Timeout time.Duration   // of one exchange; zero means DefaultTimeout
	Log     *slog.Logger    // nil means none
	Now     func() time.Time
}

// Tokens holds the access tokens of the mesh, one for each agent.
type Tokens struct {
	opts    Options
	fetcher func(*registry.Credential) (Fetcher, error)
	life    context.Context // ends with Close
	end     context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex
	by   map[parley.AgentName]*holder // guarded by mu
	shut bool                         // guarded by mu
}

// holder is what is held for one credential of an agent.
type holder struct {
	of       [sha256.Size]byte // the credential it is for
	token    token
	pending  *exchange // under way; nil for none
	failed   error     // of the last exchange; nil where it went well
	pause    time.Duration
	resumes  time.Time // no exchange before
	lastUsed time.Time
	renewals float64   // left after a 401, at most renewalBurst
	counted  time.Time // when renewals was brought up to date
}

// token is a held access token. The zero value is none.
type token struct {
	text    string
	renewal time.Time // from when on it is replaced
	ends    time.Time // from when on it is not shown
}

// exchange is one question to a token endpoint, which many may wait for.
type exchange struct {
	done chan struct{} // closed when token and err are set
	text string
	err  error
}

// New makes an empty set. Close ends it.
func New(o Options) *Tokens {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	t := &Tokens{opts: o, by: map[parley.AgentName]*holder{}}
	t.fetcher = t.guarded
	t.life, t.end = context.WithCancel(context.Background())
	return t
}

// Close ends every exchange under way and waits for it. Later requests fail.
func (t *Tokens) Close() {
	t.mu.Lock()
	t.shut = true
	t.mu.Unlock()
	t.end()
	t.running.Wait()
}

// Present says how the credential stands in a request now. For OAuth2 that
// takes a token, which is fetched where none is at hand; the error is then a
// parley.Unavailable whose message is fit for callers, and whose cause tells an
// operator why.
func (t *Tokens) Present(ctx context.Context, c *registry.Credential) (registry.Presented, error) {
	if c == nil || c.Kind != registry.OAuth2 {
		return c.Present(), nil
	}
	return t.present(ctx, c, "")
}

// Again says how the credential stands in a second request, after the agent
// answered the first with 401: with another token than refused, fetched anew
// unless somebody else did so meanwhile. ok is false for credentials of which
// the mesh has no other.
func (t *Tokens) Again(ctx context.Context, c *registry.Credential, refused registry.Presented) (p registry.Presented, ok bool, err error) {
	if c == nil || c.Kind != registry.OAuth2 || refused.Value == "" {
		return registry.Presented{}, false, nil
	}
	p, err = t.present(ctx, c, refused.Value)
	return p, err == nil, err
}

// Forget drops what is held for an agent.
func (t *Tokens) Forget(agent parley.AgentName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.by, agent)
}

// present gives a token that does not stand in a request as refused does.
func (t *Tokens) present(ctx context.Context, c *registry.Credential, refused string) (registry.Presented, error) {
	text, wait, err := t.held(c, refused)
	if wait != nil {
		select {
		case <-wait.done:
			text, err = wait.text, wait.err
		case <-ctx.Done():
			return registry.Presented{}, unavailable(c.Agent, context.Cause(ctx))
		}
	}
	if err != nil {
		return registry.Presented{}, unavailable(c.Agent, err)
	}
	return registry.Bearing(text), nil
}

// held gives the token at hand, the exchange to wait for, or why there is
// neither. A token that is to be replaced soon serves on while that is done.
func (t *Tokens) held(c *registry.Credential, refused string) (string, *exchange, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shut {
		return "", nil, errors.New("the mesh is stopping")
	}
	now := t.opts.Now()
	h := t.holder(c, now)
	if refused != "" && h.token.text != "" && registry.Bearing(h.token.text).Value == refused {
		if !h.mayRenew(now) {
			return "", nil, errors.New("the agent refuses one fresh token after the other")
		}
		h.token = token{}
	}
	good := h.token.text != "" && now.Before(h.token.ends)
	if good && now.Before(h.token.renewal) {
		return h.token.text, nil, nil
	}
	if h.pending == nil && !now.Before(h.resumes) {
		t.ask(c, h)
	}
	switch {
	case good:
		return h.token.text, nil, nil
	case h.pending != nil:
		return "", h.pending, nil
	}
	return "", nil, h.failed
}

// holder gives what is held for exactly this credential. The caller holds mu.
func (t *Tokens) holder(c *registry.Credential, now time.Time) *holder {
	of := fingerprint(c)
	h := t.by[c.Agent]
	if h == nil || h.of != of {
		if len(t.by) >= sweepAbove {
			for name, old := range t.by {
				if now.Sub(old.lastUsed) > idleAfter {
					delete(t.by, name)
				}
			}
		}
		h = &holder{of: of, renewals: renewalBurst, counted: now}
		t.by[c.Agent] = h
	}
	h.lastUsed = now
	return h
}

// mayRenew takes one of the renewals after a 401, if one is left.
func (h *holder) mayRenew(now time.Time) bool {
	h.renewals = min(renewalBurst, h.renewals+now.Sub(h.counted).Seconds()/renewalEvery.Seconds())
	h.counted = now
	if h.renewals < 1 {
		return false
	}
	h.renewals--
	return true
}

// ask starts an exchange. It does not hang on whoever asked first: others wait
// for it too. The caller holds mu.
func (t *Tokens) ask(c *registry.Credential, h *holder) {
	x := &exchange{done: make(chan struct{})}
	h.pending = x
	t.running.Go(func() {
		ctx, cancel := context.WithTimeout(t.life, t.opts.Timeout)
		defer cancel()
		text, life, err := t.fetch(ctx, c)
		t.mu.Lock()
		defer t.mu.Unlock()
		h.pending = nil
		x.text, x.err = text, err
		close(x.done)
		now := t.opts.Now()
		if err != nil {
			h.failed = err
			h.pause = min(max(2*h.pause, firstPause), lastPause)
			h.resumes = now.Add(h.pause)
			t.opts.Log.Warn("no token for an agent", "agent", c.Agent, "err", err)
			return
		}
		h.failed, h.pause, h.resumes = nil, 0, time.Time{}
		part := refreshAfter + refreshJitter*(2*rand.Float64()-1)
		h.token = token{text: text, renewal: now.Add(time.Duration(part * float64(life))), ends: now.Add(life - min(lateBy, life/2))}
	})
}

// fingerprint tells two credentials apart.
func fingerprint(c *registry.Credential) [sha256.Size]byte {
	var b []byte
	add := func(s string) { b = append(append(b, s...), 0) }
	add(c.Name)
	add(c.Secret)
	add(c.Certificate.Fingerprint())
	if q := c.Token; q != nil {
		add(q.URL)
		add(q.Audience)
		add(q.Style)
		for _, scope := range q.Scopes {
			add(scope)
		}
	}
	return sha256.Sum256(b)
}

// unavailable is what a caller hears; the cause is an operator's.
func unavailable(agent parley.AgentName, cause error) error {
	return parley.E("upstream.token", parley.Unavailable, parley.Subject(agent),
		"the mesh cannot get a token for the agent; its operator can see why", cause)
}
