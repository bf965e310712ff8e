package parleytest

import (
	"time"

	"github.com/parley-mesh/parley/internal/control"
)

// Pushes are all subscriptions, 200 at most, and how their deliveries stand.
func (m *Mesh) Pushes() []control.Push {
	m.t.Helper()
	ctx, cancel := m.ctx()
	defer cancel()
	page, err := m.Admin.Pushes(ctx, control.PushFilter{}, control.List{Limit: 200})
	if err != nil {
		m.t.Fatalf("list pushes: %v", err)
	}
	return page.Items
}

// Await waits until ok holds of something that no event tells of.
func (m *Mesh) Await(what string, ok func() bool) {
	m.t.Helper()
	for deadline := time.Now().Add(Patience); !ok(); {
		if time.Now().After(deadline) {
			m.t.Fatalf("never came to be: %s\n%s", what, m.log)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
