// Package parleytest runs a whole mesh inside a test: a real store in a
// directory of its own, real listeners on loopback, and scripted agents and
// callers around it.
//
// Everything fails the test instead of returning errors, and everything ends
// with the test. A Mesh may be used by several goroutines; Stop and Restart may
// not run beside anything else.
package parleytest
