package a2agrpc

import (
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/parley-mesh/parley/internal/a2a"
)

// TestOldErrorNames: the Python SDK of 0.3 has one code for many errors and says in
// its words which it is.
func TestOldErrorNames(t *testing.T) {
	detailed, err := status.New(codes.Unimplemented, "TaskNotCancelableError: words").
		WithDetails(&errdetails.ErrorInfo{Reason: "UNSUPPORTED_OPERATION", Domain: a2a.DomainA2A})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		st   *status.Status
		want a2a.Reason
	}{
		{status.New(codes.Unimplemented, "TaskNotCancelableError: words"), a2a.ReasonTaskNotCancelable},
		{status.New(codes.Unimplemented, "PushNotificationNotSupportedError: words"), a2a.ReasonPushNotSupported},
		{status.New(codes.InvalidArgument, "InvalidRequestError: words"), a2a.ReasonInvalidRequest},
		{status.New(codes.NotFound, "MethodNotFoundError: words"), a2a.ReasonMethodNotFound},
		{status.New(codes.Unimplemented, "TaskNotCancelableError"), a2a.ReasonUnsupportedOperation}, // nothing behind a name
		{status.New(codes.Unimplemented, "SomeError: words"), a2a.ReasonUnsupportedOperation},
		{status.New(codes.FailedPrecondition, "words: more"), a2a.ReasonTaskNotCancelable},
		{detailed, a2a.ReasonUnsupportedOperation}, // details say more than words
	} {
		if got := oldErrorOf(test.st); got.Reason != test.want {
			t.Errorf("%s %q: read as %s, want %s", test.st.Code(), test.st.Message(), got.Reason, test.want)
		}
	}
}
