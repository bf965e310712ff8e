// Package probe looks at agents from outside for the registry. It finds an
// agent's card, says everything that is wrong with it, and finds out which
// binding really answers at each of its interfaces, whatever the label says.
//
// Nothing is executed at the agent: the binding probe is a GetTask with a
// random id, whose right answer is TaskNotFound in that binding's own shape.
//
// The package stores nothing and changes no agent's state; it never follows a
// redirect, and sends a credential to no other origin than its own. Every
// connection goes through a netguard.Guard, so that neither whoever registers
// an agent nor the card of one can make the mesh reach into private networks.
// Every step is bounded in time, size and number; see the constants.
//
// An Inspector is safe for concurrent use.
package probe
