package config

import (
	"strings"

	"github.com/parley-mesh/parley/internal/nearest"
)

// nearestLeaf is nearest.Of by the last part of dotted paths; it returns the whole
// path.
func nearestLeaf(name string, paths []string) string {
	leaves := make([]string, len(paths))
	for i, path := range paths {
		leaves[i] = path[strings.LastIndexByte(path, '.')+1:]
	}
	near := nearest.Of(name[strings.LastIndexByte(name, '.')+1:], leaves)
	for i, leaf := range leaves {
		if near != "" && leaf == near {
			return paths[i]
		}
	}
	return ""
}
