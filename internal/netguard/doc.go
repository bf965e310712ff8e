// Package netguard makes the connections that strangers choose the target of:
// fetches of agent cards and other documents, and calls to agents. It keeps
// such a stranger from using the mesh to reach what only the mesh can reach.
//
// A Guard decides by address, at the moment a socket is about to connect. That
// is the only place where the decision holds: a host name may resolve to
// another address a second later, and resolvers read 0x7f000001, 2130706433 or
// 127.1 as loopback although no check on the text would. The rules, in order:
//
//  1. only TCP over IPv4 or IPv6;
//  2. nothing in network.deny;
//  3. anything in network.allow, on any port, also over plain http;
//  4. nothing the IANA registries list as special (private, loopback, link
//     local, NAT64, 6to4 and so on) and no IPv6 outside the global unicast range;
//  5. the public rest over https only; fetches on port 443 only.
//
// Two clients are built on it. FetchClient asks once and reads one bounded
// answer. Transport is a connection pool towards one agent; deadlines of calls
// come with their context, because agents may think for long. Neither uses a
// proxy from the environment (the check would see only the proxy), follows
// redirects or decompresses.
//
// The package does not authenticate agents, retry, or know what it carries.
// Everything in it is safe for concurrent use. It follows sections 3 and 8 of
// the design.
package netguard
