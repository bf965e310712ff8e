package config

import (
	"errors"
	"maps"
	"slices"
)

// FromOverride is the source of values that were set while the process ran.
const FromOverride Source = "override"

// HasKey reports whether the configuration has a key of that dotted name.
func HasKey(path string) bool {
	return slices.ContainsFunc(Default().keys(), func(k key) bool { return k.path == path })
}

// Override gives a copy of the configuration in which keys have other values,
// checked like those of a file; where says who set them. The error joins an
// *Error for each mistake. c does not change.
func (c *Config) Override(values map[string]string, where string) (*Config, error) {
	next := *c
	next.origins = maps.Clone(c.origins)
	if next.origins == nil {
		next.origins = map[string]Origin{}
	}
	l := &loader{config: &next, keys: next.keys()}
	origin := Origin{FromOverride, where}
	for _, path := range slices.Sorted(maps.Keys(values)) {
		i := slices.IndexFunc(l.keys, func(k key) bool { return k.path == path })
		if i < 0 {
			l.fail(origin, path, "unknown key")
			continue
		}
		l.set(l.keys[i], values[path], "", origin)
	}
	if len(l.problems) == 0 {
		l.problems = next.validate()
	}
	if err := l.err(); err != nil {
		return nil, err
	}
	return &next, nil
}

// Value is a key's value in force as the file would write it; empty for lists
// and for keys that are not known.
func (c *Config) Value(path string) string {
	for _, k := range c.keys() {
		if _, isList := k.value.(listValue); k.path == path && !isList {
			return k.value.text()
		}
	}
	return ""
}

// Problems lists the mistakes inside an error of Load or Override.
func Problems(err error) []*Error {
	if one, ok := errors.AsType[*Error](err); ok {
		if joined, many := err.(interface{ Unwrap() []error }); many {
			var all []*Error
			for _, e := range joined.Unwrap() {
				all = append(all, Problems(e)...)
			}
			return all
		}
		return []*Error{one}
	}
	return nil
}
