package keyring

import (
	"encoding/json"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// The events of a key. Their subject is "keyring/PURPOSE".
const (
	EventMade    = "keyring.made"    // the first key of a purpose
	EventRotated = "keyring.rotated" // another key, which signs from activeAt on
)

type eventData struct {
	Purpose  Purpose              `json:"purpose"`
	Key      string               `json:"key"` // its id
	Before   string               `json:"before,omitempty"`
	ActiveAt time.Time            `json:"activeAt"`
	Revoked  bool                 `json:"revoked,omitempty"` // all older ones
	By       parley.PrincipalName `json:"by,omitempty"`      // empty: the mesh itself
}

func (d eventData) event(kind string, now time.Time, env parley.Environment) parley.Event {
	raw, err := json.Marshal(d)
	if err != nil { // strings and times always encode
		panic(err)
	}
	return parley.Event{
		Subject: "keyring/" + string(d.Purpose), Type: kind, Time: now,
		Owner: parley.DefaultOwner, Environment: env, Data: raw,
	}
}
