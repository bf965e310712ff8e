package a2agrpc

import (
	"errors"
	"strings"

	oldpb "github.com/a2aproject/a2a-go/a2apb"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/v03"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// This file knows the service of version 0.3. Its messages become the ProtoJSON of
// that version, and package v03 makes those of 1.0 of them.

// OldServiceName is the service of version 0.3, in full.
const OldServiceName = "a2a.v1.A2AService"

// oldMethod is a method of version 0.3.
type oldMethod struct {
	name            string
	request, result protoreflect.MessageType
}

// oldNames are the methods that version 0.3 names in another way.
var oldNames = map[a2a.Method]string{
	a2a.SubscribeToTask: "TaskSubscription", a2a.ListPushConfigs: "ListTaskPushNotificationConfig", a2a.GetExtendedCard: "GetAgentCard",
}

// oldMethods are those that version 0.3 has. A list of tasks is in the text of 0.3
// and not in its proto file.
var oldMethods = func() map[a2a.Method]oldMethod {
	service := oldpb.File_a2a_proto.Services().ByName("A2AService")
	all := map[a2a.Method]oldMethod{}
	for _, m := range a2a.Methods() {
		name := string(m)
		if other, ok := oldNames[m]; ok {
			name = other
		}
		if method := service.Methods().ByName(protoreflect.Name(name)); method != nil && m != a2a.ListTasks {
			all[m] = oldMethod{name, typeOf(method.Input()), typeOf(method.Output())}
		}
	}
	return all
}()

// oldFields are members that other versions of the proto file name in another way.
var oldFields = map[protoreflect.FullName]map[string]string{"a2a.v1.Message": {"content": "parts", "parts": "content"}}

// pathOf is the method as gRPC names it in a version.
func pathOf(m a2a.Method, old bool) string {
	if old {
		return "/" + OldServiceName + "/" + oldMethods[m].name
	}
	return path(m)
}

// oldRequestJSON reads a request's message as the request object of 1.0.
func oldRequestJSON(m a2a.Method, raw []byte, limits jsonwire.Limits) (jsontext.Value, error) {
	message, err := decode(oldMethods[m].request, raw, limits)
	if err != nil {
		return nil, err
	}
	object, err := toJSON(message, len(raw), false)
	if err != nil {
		return nil, err
	}
	return v03.GRPCRequestToV1(string(m), object, roomier(limits))
}

// oldRequest is the message of a request for an agent of version 0.3.
func oldRequest(q *a2a.Request) ([]byte, error) {
	if raw := q.RawFor(a2a.GRPC, a2a.V03); raw != nil {
		return raw, nil
	}
	method, ok := oldMethods[q.Method]
	if !ok {
		return nil, v03.ErrNoMethod
	}
	params, err := q.WithoutTenant()
	if err != nil {
		return nil, err
	}
	object, err := v03.GRPCRequestFromV1(string(q.Method), params, roomier(q.Limits()))
	if err != nil {
		return nil, err
	}
	return fromJSON(method.request, object, q.Limits())
}

// oldResultJSON reads a result's message, or that of a frame, as that of 1.0. A card
// stays in the form of 0.3.
func oldResultJSON(m a2a.Method, raw []byte, limits jsonwire.Limits) (jsontext.Value, error) {
	message, err := decode(oldMethods[m].result, raw, limits)
	if err != nil {
		return nil, err
	}
	object, err := toJSON(message, len(raw), false)
	switch {
	case err != nil, m == a2a.GetExtendedCard:
		return object, err
	case m.Streaming():
		return v03.EventToV1(v03.Proto, object, roomier(limits))
	}
	return v03.ResultToV1(string(m), v03.Proto, object, roomier(limits))
}

// oldResult is the message of a result or frame for a caller of version 0.3.
func oldResult(m a2a.Method, result jsontext.Value, limits jsonwire.Limits) ([]byte, error) {
	if len(result) == 0 {
		result = jsontext.Value("{}")
	}
	var object []byte
	var err error
	switch {
	case m == a2a.GetExtendedCard:
		object, err = v03.ProtoCard(result)
	case m.Streaming():
		object, err = v03.EventFromV1(v03.Proto, result, roomier(limits))
	default:
		object, err = v03.ResultFromV1(string(m), v03.Proto, result, roomier(limits))
	}
	if err != nil {
		return nil, err
	}
	return fromJSON(oldMethods[m].result, object, limits)
}

// roomier are the limits of a translated document, which may be larger and deeper
// than its message.
func roomier(l jsonwire.Limits) jsonwire.Limits {
	const times, deeper = 4, 8 // base64 in two layers; objects around values
	l.MaxBytes, l.MaxDepth = l.Bytes()*times, l.Depth()+deeper
	return l
}

// oldCodes are the errors that version 0.3 gives another code than 1.0, and oldReasons
// what a code stands for where an agent of 0.3 names no reason.
var (
	oldCodes = map[a2a.Reason]codes.Code{
		a2a.ReasonUnsupportedOperation: codes.Unimplemented, a2a.ReasonPushNotSupported: codes.Unimplemented,
		a2a.ReasonExtendedCardMissing: codes.NotFound,
	}
	oldReasons = map[codes.Code]a2a.Reason{
		codes.Unimplemented: a2a.ReasonUnsupportedOperation, codes.FailedPrecondition: a2a.ReasonTaskNotCancelable,
	}
)

// oldStatusOf writes an error as gRPC of 0.3 has it.
func oldStatusOf(e *a2a.Error) *status.Status {
	st := statusOf(e).Proto()
	if code, ok := oldCodes[e.Reason]; ok {
		st.Code = int32(code)
	}
	return status.FromProto(st)
}

// oldWords are the errors by the names that the Python SDK of 0.3 puts before its
// words. It gives several of them one code, and none of them details.
var oldWords = map[string]a2a.Reason{
	"TaskNotFoundError": a2a.ReasonTaskNotFound, "TaskNotCancelableError": a2a.ReasonTaskNotCancelable,
	"PushNotificationNotSupportedError": a2a.ReasonPushNotSupported, "UnsupportedOperationError": a2a.ReasonUnsupportedOperation,
	"ContentTypeNotSupportedError": a2a.ReasonContentTypeNotSupported, "InvalidAgentResponseError": a2a.ReasonInvalidAgentResponse,
	"InvalidRequestError": a2a.ReasonInvalidRequest, "InvalidParamsError": a2a.ReasonInvalidParams,
	"MethodNotFoundError": a2a.ReasonMethodNotFound, "InternalError": a2a.ReasonInternal, "JSONParseError": a2a.ReasonParse,
}

// oldErrorOf reads the status of an agent of 0.3: its details say what it is, else
// the name before its words, else its code.
func oldErrorOf(st *status.Status) *a2a.Error {
	e := errorOf(st)
	reason, ok := oldReasons[st.Code()]
	if name, _, cut := strings.Cut(st.Message(), ": "); cut && len(st.Proto().GetDetails()) == 0 && oldWords[name] != "" {
		reason = oldWords[name]
	} else if !ok || e.Reason.InA2A() && e.Reason != a2a.ReasonUnsupportedOperation { // it names one
		return e
	}
	read := a2a.NewError(reason, "%s", e.Message)
	read.Details = e.Details
	return read
}

// invalidOld is what a caller of 0.3 is told of a message that cannot be read.
func invalidOld(err error) *a2a.Error {
	if _, ok := errors.AsType[*fieldError](err); ok {
		return invalid(err)
	}
	return a2a.FromTranslation(err)
}
