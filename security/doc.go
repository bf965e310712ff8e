// Package security holds tests that are named after attacks. Each runs the
// whole mesh with real listeners and attacks it from where an attacker stands:
// as a caller, as an agent, or as a stranger with a connection. No packet
// leaves the machine: hostile addresses go through netguardtest.
package security
