// Package parley is the vocabulary every other package speaks: names, ids,
// environments, outcomes, kinds of failure. It holds values only: no I/O, no
// clock, no configuration. All values are safe for concurrent use once made.
//
// Glossary (one name everywhere: Go, SQL, JSON, CLI, UI):
//
//	owner        the team that answers for things; without --owner it is "default"
//	principal    whoever calls: a person, a service or an agent
//	environment  dev, test, staging, prod; part of identity
//	agent        something registered that does work; unique name in the mesh
//	call         one governed request to an agent, with root, parent and outcome
//	outcome      the closed set of ways a call can end
//	kind         the closed set of ways an operation of the mesh can fail
//	event        one change of state, committed together with it
package parley
