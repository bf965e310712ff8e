package a2agrpc

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// bytesPerMessage is how many bytes of the largest document there must be for each
// message inside of one. An empty message takes two bytes on the wire, a value in
// a JSON array as many, and either some hundred in memory: without a bound a
// document of the largest size would become fifty times as large. A list of
// numbers takes eleven bytes for each, and stays below it.
const bytesPerMessage = 8

// mostMessages is how many messages one may have inside, at any depth.
func mostMessages(limits jsonwire.Limits) int { return int(limits.Bytes() / bytesPerMessage) }

func tooMany(most int) error {
	return wrong("has more than %d parts and values in it; refer to files by URL", most)
}

// crowded reports whether a message of a type holds more than most others. It
// reads the wire and makes nothing of it; what is no message, or nests too deeply,
// is found by whoever decodes it.
func crowded(d protoreflect.MessageDescriptor, raw []byte, most int, limits jsonwire.Limits) bool {
	if len(raw)/2 <= most { // there is no room for as many
		return false
	}
	return count(d, raw, most, levels*limits.Depth()+levels) > most
}

// count gives the number of messages inside of one, or some number above most.
func count(d protoreflect.MessageDescriptor, raw []byte, most, depth int) (n int) {
	for len(raw) > 0 && n <= most {
		number, kind, size := protowire.ConsumeField(raw)
		if size < 0 {
			return n
		}
		field := raw[:size]
		raw = raw[size:]
		fd := d.Fields().ByNumber(number)
		if kind != protowire.BytesType || fd == nil || fd.Message() == nil {
			continue
		}
		n++
		if depth > 0 {
			_, _, tag := protowire.ConsumeTag(field)
			inner, _ := protowire.ConsumeBytes(field[tag:])
			n += count(fd.Message(), inner, most-n, depth-1)
		}
	}
	return n
}
