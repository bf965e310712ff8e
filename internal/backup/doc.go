// Package backup is the file format of a mesh's backup: one tar archive with a
// manifest first and the copied database behind it. It writes archives, checks
// them, and makes a data directory of one.
//
// Keys are never in it: what is sealed in the database stays sealed, and opens
// only with the master key that the manifest names by its id.
//
// An archive is believed only once every byte of it was hashed and found as the
// manifest says. A data directory appears whole or not at all, under its name
// only when everything in it is on the disk, and never replaces anything.
package backup
