package gateway

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// How an agent's instances are judged.
const (
	// firstAway is how long an instance that could not be reached gets no new
	// work; it doubles with every failure in a row, up to lastAway.
	firstAway = time.Second
	lastAway  = time.Minute
	// troubleHalves is the time after which a failure counts half as much when
	// instances with the same load are compared.
	troubleHalves = time.Minute
)

// place is one address of an agent.
type place struct {
	agent    parley.AgentName
	instance string // empty for the agent's own address
}

func placeOf(t *registry.Target) place { return place{t.Agent.Name, t.Place()} }

// standings is what this process saw of the addresses of agents that have more
// than one. It is a matter of the moment: other replicas see for themselves, and
// a restart begins anew.
type standings struct {
	mu   sync.Mutex
	of   map[place]*standing // guarded by mu
	turn int                 // guarded by mu; shares out what is equal
}

// standing is what was seen of one address.
type standing struct {
	open     int       // exchanges under way
	missed   int       // times in a row it could not be reached
	missedAt time.Time // the last of them
	away     time.Time // until when it gets no new work
	wellAt   time.Time // last answer
	trouble  float64   // failures of any kind, as they counted at troubleAt
	markedAt time.Time
}

func newStandings() *standings { return &standings{of: map[place]*standing{}} }

// at gives what is known of p. The caller holds mu.
func (s *standings) at(p place) *standing {
	one := s.of[p]
	if one == nil {
		one = &standing{}
		s.of[p] = one
	}
	return one
}

// enter counts one exchange more at p, leave one less.
func (s *standings) enter(p place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at(p).open++
}

func (s *standings) leave(p place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at(p).open--
}

// well notes an answer.
func (s *standings) well(p place, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.at(p)
	one.missed, one.away, one.wellAt = 0, time.Time{}, now
}

// failed notes a failure; unreached says that there was no connection.
func (s *standings) failed(p place, unreached bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.at(p)
	one.trouble, one.markedAt = one.troubleAt(now)+1, now
	if !unreached {
		return
	}
	wait := lastAway
	if one.missed < 10 {
		wait = min(firstAway<<one.missed, lastAway)
	}
	one.missed++
	one.missedAt, one.away = now, now.Add(wait)
}

// troubleAt is how much past failures count at a moment.
func (one *standing) troubleAt(now time.Time) float64 {
	if one.trouble == 0 {
		return 0
	}
	return one.trouble * math.Exp2(-now.Sub(one.markedAt).Seconds()/troubleHalves.Seconds())
}

// healthy reports whether new work may go to t: the last look at it went well,
// or a call did since; and it is not away after connections that failed, unless
// a look went well since.
func (one *standing) healthy(t *registry.Target, now time.Time) bool {
	looked, well := t.Seen()
	if now.Before(one.away) && !(well && looked.After(one.missedAt)) {
		return false
	}
	return well || one.wellAt.After(looked)
}

// choose gives the address for new work: a healthy one, of these the one with
// the fewest exchanges under way, then with the least trouble of late. Without a
// healthy one it is the one that has been away longest; nil where none takes
// new work, or all are in except.
func (s *standings) choose(home *registry.Target, except []place, now time.Time) *registry.Target {
	s.mu.Lock()
	defer s.mu.Unlock()
	type candidate struct {
		*registry.Target
		standing
		healthy bool
	}
	var all []candidate
	for _, t := range home.All() {
		if t.TakesNew() && !slices.Contains(except, placeOf(t)) {
			one := s.at(placeOf(t))
			all = append(all, candidate{t, *one, one.healthy(t, now)})
		}
	}
	if len(all) == 0 {
		return nil
	}
	s.turn++
	turn := s.turn % len(all)
	all = append(all[turn:len(all):len(all)], all[:turn]...) // a sort keeps the order of equals
	slices.SortStableFunc(all, func(a, b candidate) int {
		switch {
		case a.healthy != b.healthy:
			if a.healthy {
				return -1
			}
			return 1
		case !a.healthy:
			return a.away.Compare(b.away)
		}
		return cmp.Or(cmp.Compare(a.open, b.open), cmp.Compare(a.troubleAt(now), b.troubleAt(now)))
	})
	return all[0].Target
}

// forget drops what is known of an agent's instance, or of all of them.
func (s *standings) forget(agent parley.AgentName, instance string, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, one := range s.of {
		if p.agent == agent && (all || p.instance == instance) && one.open == 0 {
			delete(s.of, p)
		}
	}
}
