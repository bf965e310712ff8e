package app

import (
	"context"

	"github.com/parley-mesh/parley/internal/store"
)

// CheckStore looks at the store in a data directory from outside and changes
// nothing; see store.Check. It is for a mesh that does not run: one that does
// tells by its status.
func CheckStore(ctx context.Context, dir string) (store.Checkup, error) {
	return store.Check(ctx, dir)
}
