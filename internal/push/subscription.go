// Package push delivers the events of tasks to whoever subscribed to them.
package push

import (
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// Subscription is a caller's wish to be told of a task's events at a URL.
type Subscription struct {
	ID        string
	Task      call.TaskKey
	Owner     parley.OwnerName
	Principal parley.PrincipalName
	ConfigID  string
	URL       string
	Token     string

	AuthScheme, AuthCredentials string

	Version string // "1.0" or "0.3": what the subscriber speaks
	Cursor  int64  // the last event of the journal that was delivered or given up
	Created time.Time
}
