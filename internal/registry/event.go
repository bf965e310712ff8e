package registry

import (
	"encoding/json"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// The events of an agent. Their subject is "agents/NAME", their data an
// EventData.
const (
	EventAdded       = "agent.added"
	EventRefreshed   = "agent.refreshed"    // looked at on demand, or what was found differs
	EventCardChanged = "agent.card_changed" // another card is in use
	EventPending     = "agent.pending"      // another card waits for approval
	EventApproved    = "agent.approved"
	EventSuspended   = "agent.suspended"
	EventResumed     = "agent.resumed"
	EventMoved       = "agent.moved" // its address is another one
	EventRemoved     = "agent.removed"
	EventAllowed     = "agent.allowed"
	EventDisallowed  = "agent.disallowed"
	EventAuthSet     = "agent.auth_set"
	EventAuthRemoved = "agent.auth_removed"
	EventSignature   = "agent.signature_changed" // what is known of the signatures of its card

	EventAuthPolicy = "agent.auth_policy" // whether it may ask callers for a credential
	EventAsked      = "agent.asked"       // it asked a caller's side for a credential; its data is that of the call

	EventInstanceAdded    = "agent.instance_added"
	EventInstanceChanged  = "agent.instance_changed" // what a look at it found differs
	EventInstanceDraining = "agent.instance_draining"
	EventInstanceRemoved  = "agent.instance_removed"
)

// EventData is what an agent's event tells; members that do not apply are
// empty. It never holds a secret.
type EventData struct {
	Name     parley.AgentName `json:"name"`
	Status   Status           `json:"status,omitempty"`
	Reason   string           `json:"reason,omitempty"`
	URL      string           `json:"url,omitempty"`      // as registered
	Address  string           `json:"address,omitempty"`  // of the interface in use
	Binding  string           `json:"binding,omitempty"`  // that is spoken there
	CardHash string           `json:"cardHash,omitempty"` // of the card in use
	Before   string           `json:"before,omitempty"`   // hash of the card used before
	Pending  string           `json:"pending,omitempty"`  // hash of the card that waits
	CheckErr string           `json:"checkErr,omitempty"`
	Grantee  parley.OwnerName `json:"grantee,omitempty"` // the owner allowed or disallowed
	Kind     CredentialKind   `json:"kind,omitempty"`    // of the credential
	Origin   string           `json:"origin,omitempty"`  // of the credential
	// AuthRequired is the new policy.
	AuthRequired AuthPolicy `json:"authRequired,omitempty"`
	// Signature is the state of the signatures of the card in use, SignedBy the kid
	// of a key whose signature holds.
	Signature       SignatureState `json:"signature,omitempty"`
	SignedBy        string         `json:"signedBy,omitempty"`
	SignatureBefore SignatureState `json:"signatureBefore,omitempty"`
	// Instance is what an event of an instance is about; URL, Address, Binding
	// and CheckErr are then the instance's.
	Instance       string         `json:"instance,omitempty"`
	InstanceStatus InstanceStatus `json:"instanceStatus,omitempty"`
}

// event makes an event of a with a's present state; more may fill in the rest.
func (a *Agent) event(kind string, now time.Time, more func(*EventData)) parley.Event {
	data := EventData{Name: a.Name, Status: a.Status, Reason: a.Reason, URL: a.URL, CardHash: a.CardHash, CheckErr: a.CheckErr}
	if a.Use >= 0 && a.Use < len(a.Interfaces) {
		data.Address, data.Binding = a.Interfaces[a.Use].URL, a.Interfaces[a.Use].Speaks()
	}
	if data.Signature = a.Signature.State; len(a.Signature.Keys) > 0 {
		data.SignedBy = a.Signature.Keys[0].KeyID
	}
	if a.Pending != nil {
		data.Pending = a.Pending.CardHash
	}
	if more != nil {
		more(&data)
	}
	raw, err := json.Marshal(data)
	if err != nil { // strings always encode
		panic(err)
	}
	return parley.Event{
		Subject: "agents/" + string(a.Name), Type: kind, Time: now,
		Owner: a.Owner, Environment: a.Environment, Data: raw,
	}
}
