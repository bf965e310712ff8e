package push

import (
	"encoding/json"

	"github.com/parley-mesh/parley/internal/parley"
)

// The events of deliveries. Their subject is "pushes/SUBSCRIPTION".
const (
	EventDead  = "push.dead_letter" // an event could not be delivered in time
	EventEnded = "push.ended"       // the receiver wants no more
)

type eventData struct {
	Subscription string               `json:"subscription"`
	Principal    parley.PrincipalName `json:"principal"`
	Agent        parley.AgentName     `json:"agent"`
	Task         string               `json:"task"`
	Letter       string               `json:"letter,omitempty"`
	Attempts     int                  `json:"attempts,omitempty"`
	Reason       string               `json:"reason"`
}

func (d *Dispatcher) event(kind string, c *Claim, data eventData) parley.Event {
	data.Subscription, data.Principal, data.Agent, data.Task = c.ID, c.Principal, c.Task.Agent, c.Task.ID
	raw, err := json.Marshal(data)
	if err != nil { // strings and numbers always encode
		panic(err)
	}
	return parley.Event{Subject: "pushes/" + c.ID, Type: kind, Time: d.opts.Now(), Owner: c.Owner, Environment: d.opts.Environment, Data: raw}
}
