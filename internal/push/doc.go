// Package push is what a caller who wants to be told of a task's events has
// asked for, and what the mesh does to learn of them: subscriptions, and the
// relay that follows their task.
//
// A caller's address never reaches an agent. The agent is told one of the
// mesh's own, if it can push at all; what arrives there only makes the mesh
// look at the task, and what the look shows goes into the journal of the task's
// events (package stream). From there it is delivered to every subscription.
//
// Invariants: a subscription belongs to the principal that has its task, and
// goes when the task, the principal or the agent goes; addresses, tokens and
// credentials rest sealed; of the token that an agent got only a hash is kept;
// one process at a time looks at a task.
//
// The package describes and decides; it reads no clock, database or network.
package push
