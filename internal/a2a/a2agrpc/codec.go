package a2agrpc

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// frame is a message as bytes.
type frame struct{ raw []byte }

// codec passes frames as they are, and everything else, such as the messages of
// the health service, to protobuf's own codec.
type codec struct{ other encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Name implements encoding.CodecV2. It is that of protobuf, which the bytes are.
func (codec) Name() string { return proto.Name }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if f, ok := v.(*frame); ok {
		return mem.BufferSlice{mem.SliceBuffer(f.raw)}, nil
	}
	return c.other.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		if err := c.other.Unmarshal(data, v); err != nil {
			return fmt.Errorf("read a message: %w", err)
		}
		return nil
	}
	f.raw = data.Materialize() // a copy: the buffers go back to their pool
	return nil
}
