package bench

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Methods of the A2A service that the benchmark calls and answers.
const (
	grpcSend   = "/lf.a2a.v1.A2AService/SendMessage"
	grpcStream = "/lf.a2a.v1.A2AService/SendStreamingMessage"
	grpcGet    = "/lf.a2a.v1.A2AService/GetTask"
	grpcCancel = "/lf.a2a.v1.A2AService/CancelTask"
)

// Field numbers and values of A2A's protobuf messages, as far as they are used
// here.
const (
	requestTenant, requestMessage, requestConfiguration = 1, 2, 3

	configurationModes = 1

	replyTask, replyMessage, replyStatus, replyArtifact = 1, 2, 3, 4 // the last two in streams only

	messageID, messageContext, messageRole, messageParts = 1, 2, 4, 5
	roleUser, roleAgent                                  = 1, 2

	partText = 1

	taskID, taskContext, taskStatus = 1, 2, 3 // in updates too

	updateArtifact, updateAppend = 3, 4

	artifactID, artifactParts = 1, 4

	statusState                  = 1
	stateWorking, stateCompleted = 2, 3
)

// rawFrame is a message as it stands on the wire.
type rawFrame struct{ data mem.BufferSlice }

// rawCodec passes rawFrames without looking at them or copying them. It calls
// itself by the name of the codec that makes the same bytes.
type rawCodec struct{}

// Marshal implements encoding.CodecV2.
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*rawFrame)
	if !ok {
		return nil, fmt.Errorf("raw codec: want a frame, got %T", v)
	}
	f.data.Ref()
	return f.data, nil
}

// Unmarshal implements encoding.CodecV2. The receiver frees the frame.
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*rawFrame)
	if !ok {
		return fmt.Errorf("raw codec: want a frame, got %T", v)
	}
	data.Ref()
	f.data = data
	return nil
}

// Name implements encoding.CodecV2.
func (rawCodec) Name() string { return "proto" }

// frameOf wraps bytes, which must not change while the frame is under way.
func frameOf(message []byte) *rawFrame {
	return &rawFrame{data: mem.BufferSlice{mem.SliceBuffer(message)}}
}

func appendStringField(dst []byte, n protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(dst, n, protowire.BytesType), s)
}

func appendMessageField(dst []byte, n protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, n, protowire.BytesType), message)
}

func appendNumberField(dst []byte, n protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, n, protowire.VarintType), value)
}

// textPart is a Part with a text.
func textPart(text string) []byte { return appendStringField(nil, partText, text) }

// grpcRequestBytes is the size of every request without its tenant: as large
// as a body in JSON, so that both carry as much.
const grpcRequestBytes = payloadBytes

// newGRPCRequest returns a SendMessageRequest for tenant, which may be empty,
// and the part of it that holds the counter of the message id.
func newGRPCRequest(tenant string) (wire, counter []byte) {
	text := grpcRequestBytes
	for {
		message := appendStringField(nil, messageID, newPrefix()+idPlaceholder)
		message = appendNumberField(message, messageRole, roleUser)
		message = appendMessageField(message, messageParts, textPart(filler(text)))
		wire = appendMessageField(nil, requestMessage, message)
		wire = appendMessageField(wire, requestConfiguration, appendStringField(nil, configurationModes, "text/plain"))
		over := len(wire) - grpcRequestBytes
		if over == 0 {
			break
		}
		text -= over
	}
	if tenant != "" {
		wire = append(appendStringField(nil, requestTenant, tenant), wire...)
	}
	// The message comes before anything that could hold such bytes too.
	at := bytes.Index(wire, []byte(idPlaceholder))
	return wire, wire[at : at+idLen]
}

var errGRPCReply = errors.New("not the reply that was asked for")

// checkGRPCReply returns an error unless message is a reply of one of the kinds
// wanted (field numbers of SendMessageResponse and StreamResponse) with
// content.
func checkGRPCReply(message []byte, wanted ...protowire.Number) error {
	number, kind, n := protowire.ConsumeTag(message)
	if n < 0 || kind != protowire.BytesType {
		return fmt.Errorf("%w: %.80x", errGRPCReply, message)
	}
	content, m := protowire.ConsumeBytes(message[n:])
	if m < 0 || len(content) == 0 || n+m != len(message) {
		return fmt.Errorf("%w: %.80x", errGRPCReply, message)
	}
	if slices.Contains(wanted, number) {
		return nil
	}
	return fmt.Errorf("%w: field %d, want one of %d", errGRPCReply, number, wanted)
}
