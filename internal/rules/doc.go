// Package rules holds what is true of the repository as a whole, as tests: which
// package may import which, that packages and exported names are documented,
// that generated files are what their generators make, that no file names a
// machine or a download address, and that every dependency says why it is here.
//
// The package has no code of its own. A rule that must give way somewhere gives
// way by a line in the rule's own list, with the reason beside it.
//
// "make generate" is this package's TestGenerated with -update.
package rules
