package a2a

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// This file is for package a2agrpc: it reads and writes the messages of gRPC, and
// shares what a request and a result must be with the other bindings.

// RawEditor changes a message as Request.Set and Delete change the request
// object: the member at path gets the value, or is taken out where it is nil.
type RawEditor func(m Method, raw []byte, path string, value jsontext.Value) ([]byte, error)

// OpenMessage makes the request of a call whose method and metadata are known. The
// Request is never nil. A call that names no version is one of 1.0, since no other
// has these method names, unless StrictVersion is set.
func OpenMessage(b Binding, m Method, header http.Header, opt ServerOptions) (*Request, *Error) {
	q := &Request{Binding: b, Method: m, Header: header, opt: opt, Extensions: splitExtensions(header[keyExtensions])}
	q.Facts.HistoryLength = -1
	q.Version = MajorMinor(Version(strings.TrimSpace(header.Get(keyVersion))))
	if q.Version != "" && q.Version != V10 {
		return q, VersionNotSupported(q.Version)
	}
	return q, q.settleVersion(V10, string(m))
}

// OpenOldMessage is OpenMessage for the service of version 0.3.
func OpenOldMessage(b Binding, m Method, header http.Header, opt ServerOptions) (*Request, *Error) {
	q := &Request{Binding: b, Method: m, Header: header, opt: opt, Version: V03, old: true}
	q.Extensions = splitExtensions(slices.Concat(header[keyExtensions], header[keyOldExtensions]))
	q.Facts.HistoryLength = -1
	asked := MajorMinor(Version(strings.TrimSpace(header.Get(keyVersion))))
	if asked != "" && asked != V03 {
		return q, NewError(ReasonMethodNotFound, "this service is of A2A version %s, and the call names version %q; send none, or call the other service", V03, clip(string(asked)))
	}
	return q, nil
}

// Old tells whether the call is in the forms of version 0.3, and so must its answer be.
func (q *Request) Old() bool { return q.old }

// Passes tells whether an answer to q from a peer of that binding and version can
// pass as it came.
func (q *Request) Passes(b Binding, v Version) bool {
	return q.passes(Endpoint{Binding: b, Version: v})
}

// RawFor is the message as it came, with what was set in it since, where a peer of
// that binding and version can read it; nil where it has to be made of Params.
func (q *Request) RawFor(b Binding, v Version) []byte {
	if !q.Passes(b, v) || q.old && q.edited {
		return nil
	}
	return q.Raw
}

// WithoutTenant is the request object for an agent of version 0.3: a tenant is how
// callers reach the mesh, and those agents have none.
func (q *Request) WithoutTenant() (jsontext.Value, error) {
	if q.Tenant == "" {
		return q.Params, nil
	}
	return jsonwire.Delete(q.Params, "/tenant")
}

// FromTranslation is what a caller is told of a request of version 0.3 that package
// v03 refused with err.
func FromTranslation(err error) *Error { return fromTranslation(err) }

// EndsOld tells whether callers of version 0.3 stop reading a stream at a frame.
func EndsOld(f *Frame) bool { return endsOld(f) }

// TakeMessage completes a request with its message: as it came, and as the request
// object in JSON, which is checked as in any binding. edit keeps raw in step with
// later changes.
func (q *Request) TakeMessage(raw []byte, params jsontext.Value, edit RawEditor) *Error {
	q.Raw, q.Params, q.editRaw = raw, params, edit
	var sink factSink
	sink.reset()
	limits := q.opt.Limits
	limits.MaxBytes = limits.Bytes() * grown
	if problems := operations[q.Method].request.Check(params, jsonwire.CheckOptions{Limits: limits, Sink: &sink}); problems != nil {
		return fromProblems(problems)
	}
	return q.take(&sink)
}

// grown is how much larger than its message a request object may be: base64 alone
// makes content a third larger.
const grown = 2

// Limits are what a message of this call may hold.
func (q *Request) Limits() jsonwire.Limits { return q.opt.Limits }

func (q *Request) editMessage(s jsonwire.Splice, path string, value jsontext.Value) error {
	if q.old {
		q.Params, q.edited = s.Apply(q.Params), true
		return nil
	}
	if q.Raw != nil {
		raw, err := q.editRaw(q.Method, q.Raw, path, value)
		if err != nil {
			return fmt.Errorf("edit the message at %s: %w", path, err)
		}
		q.Raw = raw
	}
	q.Params = s.Apply(q.Params)
	return nil
}

// CheckResult checks a peer's result of a method, or a frame of its stream, and
// tells its facts. The error is ErrNotA2A with what is wrong.
func CheckResult(m Method, result jsontext.Value, limits jsonwire.Limits) (Facts, error) {
	var sink factSink
	sink.reset()
	shape := operations[m].result
	if shape == nil { // a deletion, whose result says nothing
		return sink.of(m), nil
	}
	limits.MaxBytes = limits.Bytes() * grown
	if problems := shape.Check(result, jsonwire.CheckOptions{Limits: limits, Sink: &sink, Lax: true}); problems != nil {
		return Facts{}, fmt.Errorf("%w: %w", ErrNotA2A, problems[0])
	}
	return sink.of(m), nil
}

// ExtensionsOf reads the values of A2A-Extensions: each URI once, in order.
func ExtensionsOf(values []string) []string { return splitExtensions(values) }

// StreamFailure is what a caller is told of a stream whose Next failed with err.
// Only an *Error was made for a caller's eyes.
func StreamFailure(err error) *Error { return streamFailure(err) }
