// Package config holds everything an operator can set about a Parley process:
// one Config tree, its defaults, and the only code that reads it from a YAML
// file, the environment and command line flags.
//
// The table in keys.go is the single source: each line binds a key to its
// field, type, range and explanation. Decoding, flags, environment names, the
// effective print-out and docs/config.md are all read from that table, so none
// of them can drift from the others.
//
// Later sources win: default, then file, then environment, then flag. Decoding
// is strict. An unknown key, a value without its unit and a number out of range
// are errors that name where the value was written and what to write instead,
// and all of them are reported at once. Secrets are never values in the file
// but references (file:PATH or env:NAME), and print as [redacted].
//
// The package does not watch files, does not reload and opens nothing except
// the configuration file and the files secrets refer to. A Config is read once
// at start; other packages receive the part they need, not the tree. A loaded
// Config is safe for concurrent reading.
package config
