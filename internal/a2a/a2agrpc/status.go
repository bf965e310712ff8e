package a2agrpc

import (
	"github.com/go-json-experiment/json/jsontext"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	// The typed details of errors, which are found by name.
	_ "google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// codeNames are gRPC's codes as google.rpc.Code names them, by number.
var codeNames = []string{"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
	"ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
	"UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"}

func codeName(c codes.Code) string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return codeNames[codes.Unknown]
}

// codeOf is the code of a name. An error is never OK.
func codeOf(name string) codes.Code {
	for i, n := range codeNames {
		if n == name && i > 0 {
			return codes.Code(i)
		}
	}
	return codes.Unknown
}

// Bounds of a status as it is sent. It travels in trailers, twice, and once in
// base64; clients refuse header blocks over 8 KiB by default.
const (
	maxStatusBytes  = 3 << 10
	maxMessageBytes = 1 << 10
)

// statusOf writes an error as gRPC's. Details go from the last on where they do
// not fit; the first, ErrorInfo, stays.
func statusOf(e *a2a.Error) *status.Status {
	raw := e.REST()
	text, _ := jsonwire.Get(raw, "/error/message")
	list, _ := jsonwire.Get(raw, "/error/details")
	st := &spb.Status{Code: int32(codeOf(e.Status)), Message: clip(jsonwire.String(text), maxMessageBytes)}
	for _, detail := range jsonwire.Elements(list) {
		one := new(anypb.Any)
		if protojson.Unmarshal(detail, one) != nil {
			continue // a type that is unknown here has no form in protobuf
		}
		st.Details = append(st.Details, one)
		if len(st.Details) > 1 && proto.Size(st) > maxStatusBytes {
			st.Details = st.Details[:len(st.Details)-1]
		}
	}
	return status.FromProto(st)
}

// clip cuts text to size bytes, at the end of a character.
func clip(text string, size int) string {
	if len(text) <= size {
		return text
	}
	for size > 0 && text[size]&0xC0 == 0x80 {
		size--
	}
	return text[:size]
}

// errorOf reads the status of a peer's failure.
func errorOf(st *status.Status) *a2a.Error {
	pb := st.Proto()
	details := make([]jsontext.Value, 0, len(pb.GetDetails()))
	for _, one := range pb.GetDetails() {
		if raw, err := protojson.Marshal(one); err == nil { // types unknown here say nothing
			details = append(details, raw)
		}
	}
	return a2a.DecodeStatus(codeName(st.Code()), st.Message(), details)
}

// rawStatus keeps a peer's status for a caller that speaks gRPC too.
func rawStatus(st *status.Status) []byte {
	raw, err := proto.Marshal(st.Proto())
	if err != nil {
		return nil // then it is written anew from what was understood of it
	}
	return raw
}

// statusFor is the status with which a failed reply is answered.
func statusFor(e *a2a.Error, raw []byte, old bool) error {
	st := new(spb.Status)
	if raw != nil && proto.Unmarshal(raw, st) == nil && st.GetCode() != int32(codes.OK) && proto.Size(st) <= 2*maxStatusBytes {
		return status.FromProto(st).Err()
	}
	if old {
		return oldStatusOf(e).Err()
	}
	return statusOf(e).Err()
}
