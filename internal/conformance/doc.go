// Package conformance holds what A2A v1.0 demands, row by row, and says of each
// row whether it is met: by our protocol package directly, with the reference
// agent of package a2atest behind it, and by the same agent behind a running
// Parley.
//
// The rows are data. Their tests are in this package's own test files, one
// subtest per row, named after it. docs/conformance.md is written from the rows
// and the outcomes of that very run; it says passed of nothing that did not pass.
package conformance
