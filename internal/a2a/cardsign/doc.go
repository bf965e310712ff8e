// Package cardsign signs agent cards and verifies their signatures (A2A 1.0,
// section 8.4): detached JSON web signatures over a canonical form of the card.
//
// Which bytes those are, the specification says twice and differently, and the
// official SDKs do a third thing. Signing covers what differs with a signature
// each; verifying tries one form after the other and says which one matched
// (decision 0014). Everything starts from the bytes of a card as they were
// received: a struct has forgotten what was written and what was not.
//
// A signature is only as good as the key it is verified with. This package
// fetches none: it is given a KeySource, which decides whose keys count. What
// stands in a signature's protected header is a stranger's word until then, and
// its unprotected header is not read at all.
//
// All functions are safe for concurrent use.
package cardsign
