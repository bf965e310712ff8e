package registry

// NewMemory gives tests of the package's outside the store of its inside.
func NewMemory() Store { return newMemory() }
