package v03

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// Types of the details that carry the free data of a 0.3 error in 1.0, where data
// is a list of typed objects.
const (
	typeStruct = "type.googleapis.com/google.protobuf.Struct"
	typeValue  = "type.googleapis.com/google.protobuf.Value"
)

type typedValue struct {
	Type  string         `json:"@type"`
	Value jsontext.Value `json:"value"`
}

// typedDetails is the data of a 0.3 error that has typed details: an object, since
// 0.3 SDKs read nothing else.
type typedDetails struct {
	Details []jsontext.Value `json:"details" wire:"required"`
}

// ErrorToV1 translates the error object of a JSON-RPC response. Codes are the same.
func ErrorToV1(raw []byte, lim jsonwire.Limits) ([]byte, error) {
	r := reader{lax: true, limits: lim}
	var in oldError
	if err := r.into(raw, &in); err != nil {
		return nil, err
	}
	out := newError{Code: in.Code, Message: in.Message}
	data := given(in.Data)
	if data == nil {
		return jsonwire.Marshal(out)
	}
	var typed typedDetails
	if len(jsonwire.Members(data)) == 1 && r.into(data, &typed) == nil && allTyped(typed.Details) {
		out.Data = typed.Details
		return jsonwire.Marshal(out)
	}
	if data[0] == '[' && allTyped(jsonwire.Elements(data)) { // a 1.0 error from an agent of both versions
		out.Data = jsonwire.Elements(data)
		return jsonwire.Marshal(out)
	}
	carrier := typedValue{Type: typeValue, Value: data}
	if data[0] == '{' {
		carrier.Type = typeStruct
	}
	detail, err := jsonwire.Marshal(carrier)
	if err != nil {
		return nil, err
	}
	out.Data = []jsontext.Value{detail}
	return jsonwire.Marshal(out)
}

// allTyped tells whether every detail is an object that says its type.
func allTyped(list []jsontext.Value) bool {
	for _, d := range list {
		if kind, ok := jsonwire.Get(d, "/@type"); !ok || kind[0] != '"' {
			return false
		}
	}
	return len(list) > 0
}

// ErrorFromV1 translates the error object of a JSON-RPC response of 1.0. Its
// details become the data {"details": […]}.
func ErrorFromV1(raw []byte, lim jsonwire.Limits) ([]byte, error) {
	var in newError
	if err := (reader{lax: true, limits: lim}).into(raw, &in); err != nil {
		return nil, err
	}
	out := oldError{Code: in.Code, Message: in.Message}
	switch {
	case len(in.Data) == 0:
	case len(in.Data) == 1 && carries(in.Data[0]):
		out.Data, _ = jsonwire.Get(in.Data[0], "/value")
	default:
		data, err := jsonwire.Marshal(typedDetails{in.Data})
		if err != nil {
			return nil, err
		}
		out.Data = data
	}
	return jsonwire.Marshal(out)
}

// carries tells whether a detail is what ErrorToV1 made of free data.
func carries(detail jsontext.Value) bool {
	kind, _ := jsonwire.Get(detail, "/@type")
	_, ok := jsonwire.Get(detail, "/value")
	text := jsonwire.String(kind)
	return ok && (text == typeStruct || text == typeValue) && len(jsonwire.Members(detail)) == 2
}
