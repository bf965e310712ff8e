package push

import (
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// Relay is how the mesh follows a task for its subscribers. A task has one as
// long as it has subscriptions.
type Relay struct {
	Task      call.TaskKey
	Owner     parley.OwnerName // of the principal
	Principal parley.PrincipalName

	// Callback names the address at which the agent is to push. It is no
	// secret: the token is.
	Callback  string
	TokenHash []byte // SHA-256 of the token that the agent got; nil: none was sent
	Upstream  Upstream

	// Seen is what the journal tells of the task already (Sight.Mark), as of the
	// journal's place SeenSeq.
	Seen    string
	SeenSeq int64

	LookAt  time.Time     // when to look next; zero: never, for the task is final
	Busy    time.Time     // until when a process that looks has it to itself; zero: none does
	Delay   time.Duration // the pause before that look
	Lost    int           // looks in a row at which the agent did not know the task
	Ended   time.Time     // when the journal got the task's last event; zero: not yet
	Created time.Time
}

// Upstream is whether an agent pushes to the mesh.
type Upstream string

// The states of a registration at an agent.
const (
	UpstreamNew    Upstream = ""       // was not tried, or is under way
	UpstreamActive Upstream = "active" // the agent has taken it
	UpstreamNone   Upstream = "none"   // the agent does not push, or did not take it: the mesh watches
)

// Pace says how a task is watched.
type Pace struct {
	First time.Duration // pause before the second look
	Max   time.Duration // longest pause, reached by doubling
}

// Next plans the look behind one that was made at now. changed says that it
// showed something new.
func (p Pace) Next(r *Relay, now time.Time, changed bool) {
	if r.Delay = min(2*r.Delay, p.Max); changed || r.Delay == 0 {
		r.Delay = p.First
	}
	r.LookAt = now.Add(r.Delay)
}
