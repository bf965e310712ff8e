package main

import (
	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/parley-mesh/parley/interop/go/peer"
)

// sdk is how this SDK shows its values.
var sdk = peer.SDK{
	Client: "go",
	Wire: func(value any) any {
		if event, ok := value.(a2a.Event); ok {
			return a2a.StreamResponse{Event: event}
		}
		return value
	},
	Reason: a2a.ErrorReason,
	Open: func(value any) (string, string, bool) {
		task, ok := value.(*a2a.Task)
		if !ok || task == nil || task.Status.State.Terminal() {
			return "", "", false
		}
		return string(task.ID), task.ContextID, true
	},
}
