// Package apply makes a mesh hold what documents declare. It compares them with
// what is there, makes a plan of every difference, and carries the plan out in
// one transaction, events included: all of it or nothing.
//
// Applying the same documents again changes nothing. What documents have
// created is marked with the name of their set; a thing that is declared no
// more is removed only where it is marked with that set and only where pruning
// is asked for. Nobody takes away their own access by it.
//
// Agents that are new, moved or get another credential are looked at before the
// transaction, also for a plan that is only shown. A change that somebody else
// makes meanwhile is noticed at the commit, and the plan is made anew.
//
// The package decides nothing about single things: what an owner, a principal
// or an agent may become is for identity and registry to say. It is safe for
// concurrent use; one plan is carried out at a time.
package apply
