package jsonwire

import (
	"bytes"
	"fmt"
)

// Defaults of [Limits].
const (
	// DefaultMaxBytes is the largest document accepted: 8 MiB holds an inline
	// file of 6 MB, and a stock agent refuses far less.
	DefaultMaxBytes = 8 << 20
	// DefaultMaxDepth is the deepest nesting of objects and arrays accepted.
	// Messages of the protocols here nest about ten deep; the rest is room for
	// the data a part carries.
	DefaultMaxDepth = 128
	// MaxProblems is the number of problems collected from one document before
	// the check gives up; a hostile document must not buy an unlimited answer.
	MaxProblems = 16
	// MaxIDBytes is the longest identifier accepted: ids become keys in stores and
	// parts of addresses. A UUID has 36 bytes.
	MaxIDBytes = 1024
)

// Limits bounds a document from outside. The zero value means the defaults.
type Limits struct {
	MaxBytes int64 // size of the document in bytes; 0 means DefaultMaxBytes
	MaxDepth int   // nesting of objects and arrays; 0 means DefaultMaxDepth
}

// Bytes returns the size limit in force, in bytes.
func (l Limits) Bytes() int64 {
	if l.MaxBytes <= 0 {
		return DefaultMaxBytes
	}
	return l.MaxBytes
}

// Depth returns the nesting limit in force.
func (l Limits) Depth() int {
	if l.MaxDepth <= 0 {
		return DefaultMaxDepth
	}
	return l.MaxDepth
}

// check reports a document that is over a limit.
func (l Limits) check(data []byte) *Error {
	if int64(len(data)) > l.Bytes() {
		return &Error{Kind: KindLimit, Offset: l.Bytes(),
			Problem: fmt.Sprintf("the document has more than %d bytes", l.Bytes()),
			Fix:     "send less in one message, or refer to files by URL"}
	}
	if offset, deep := deeperThan(data, l.Depth()); deep {
		return &Error{Kind: KindLimit, Offset: offset,
			Problem: fmt.Sprintf("objects and arrays nest more than %d deep", l.Depth()),
			Fix:     "flatten the document"}
	}
	return nil
}

// deeperThan finds the place where nesting exceeds depth. It runs before the
// parser, which would otherwise recurse first; a document with few brackets
// cannot be deep, and counting them costs next to nothing.
func deeperThan(data []byte, depth int) (int64, bool) {
	if bytes.Count(data, []byte{'{'})+bytes.Count(data, []byte{'['}) <= depth {
		return 0, false
	}
	level := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			if level++; level > depth {
				return int64(i), true
			}
		case '}', ']':
			level--
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		}
	}
	return 0, false
}
