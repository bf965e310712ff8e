// Package manifest reads the documents that declare what a mesh should hold:
// owners, principals, agents, credentials and limits, each in an envelope of
// apiVersion, kind, metadata and spec. It says what is wrong with them, all at
// once and each with file, line and column, and publishes their JSON Schemas.
//
// The Go types of the specs are the one source: their tags say what is
// required, allowed and meant, for the decoder and for the schemas alike.
//
// What the mesh makes of a document is package apply's. No document holds a
// secret: a Credential refers to one, and whoever reads the file resolves it.
//
// Reading is bounded in bytes, depth and number of values; anchors, aliases and
// tags are refused, so that a small file stays small. Everything here is safe
// for concurrent use.
package manifest
