// Package v03 translates A2A messages between version 0.3 and version 1.0, raw
// JSON to raw JSON, without any I/O.
//
// Version 0.3 has two JSON dialects: that of its JSON-RPC binding ([RPC]: objects
// have a kind, enumerations are lower-case words) and the ProtoJSON of its proto
// file ([Proto]), which its REST binding carries in practice. Names that end in
// ToV1 read 0.3, those that end in FromV1 write it. Methods go by their 1.0 names.
//
// A request is read strictly in its dialect. An answer is read tolerantly, in
// either dialect whatever the binding: servers differ. What is written is always
// one dialect whole.
//
// What the other version has no place for travels in metadata: the members of 1.0
// under [KeyV1], those of 0.3 under [KeyV03], and a data part that holds no object
// as the 0.3 SDKs do it. On the way back it returns to its place, so that a
// message that goes through the other version and back is the one it was, but for
// what docs/versions.md lists. What cannot travel is an error that names the member.
// Members that neither version defines are left out, as between JSON and gRPC.
//
// An empty string, list or object reads as absent wherever a member may be absent.
package v03
