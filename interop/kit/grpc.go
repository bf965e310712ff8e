package main

import (
	"encoding/binary"
	"net/http"
	"strings"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// plainHTTP2 speaks HTTP/2 without TLS, as gRPC on loopback does.
func plainHTTP2() *http.Transport {
	var only http.Protocols
	only.SetUnencryptedHTTP2(true)
	return &http.Transport{Protocols: &only}
}

// framed is what stands before a message of gRPC: whether it is compressed, and
// its length.
const framed = 5

// mendMessage rewrites the message of a call as mend does, and names the target in
// it. What it does not understand goes as it is.
func (f *front) mendMessage(path string, body []byte) []byte {
	if len(body) < framed || body[0] != 0 || int(binary.BigEndian.Uint32(body[1:framed])) != len(body)-framed {
		return body
	}
	service, method, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service).Append(protoreflect.Name(method)))
	if err != nil {
		return body
	}
	call, ok := found.(protoreflect.MethodDescriptor)
	if !ok {
		return body
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(call.Input().FullName())
	if err != nil {
		return body
	}
	m := kind.New()
	if err := proto.Unmarshal(body[framed:], m.Interface()); err != nil {
		return body
	}
	if field := m.Descriptor().Fields().ByName("tenant"); field != nil && f.tenant != "" {
		m.Set(field, protoreflect.ValueOfString(f.tenant))
	}
	if send, ok := m.Interface().(*pb.SendMessageRequest); ok && method == "SendMessage" {
		// Always: the kit writes a configuration into every message, and protobuf
		// does not tell what it asks for from what it leaves alone.
		if send.Configuration == nil {
			send.Configuration = &pb.SendMessageConfiguration{}
		}
		send.Configuration.ReturnImmediately = true
	}
	mended, err := proto.Marshal(m.Interface())
	if err != nil {
		return body
	}
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(mended))) // the kit's messages are small
	return append(frame, mended...)
}
