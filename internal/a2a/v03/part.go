package v03

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

func (r reader) partsToV1(parts []oldPart) ([]newPart, error) {
	out := make([]newPart, len(parts))
	for i := range parts {
		if err := r.partToV1(&parts[i], &out[i]); err != nil {
			return nil, under(strconv.Itoa(i), err)
		}
	}
	return out, nil
}

func (r reader) partToV1(in *oldPart, out *newPart) error {
	if string(in.Data) == "null" && (in.Text != nil || in.File != nil) {
		in.Data = nil
	}
	kind, err := r.kindOf(in)
	if err != nil {
		return err
	}
	if err := unreserved(in.Metadata, KeyV03); err != nil {
		return err
	}
	var carried carriedV1
	if out.Metadata, err = r.unpack(in.Metadata, KeyV1, &carried); err != nil {
		return err
	}
	out.MediaType, out.Filename = carried.MediaType, carried.Filename
	switch kind {
	case "text":
		out.Text = in.Text
	case "file":
		out.MediaType, out.Filename = in.File.MimeType, in.File.Name
		return under("file", r.fileToV1(in.File, out))
	default:
		return r.dataToV1(in, out)
	}
	return nil
}

// kindOf tells what a part holds, and refuses one that holds nothing, several
// things, or another than its kind says.
func (r reader) kindOf(in *oldPart) (string, error) {
	kind, n := "", 0
	if in.Text != nil {
		kind, n = "text", n+1
	}
	if in.File != nil {
		kind, n = "file", n+1
	}
	if in.Data != nil {
		kind, n = "data", n+1
	}
	switch {
	case n == 0:
		return "", problem("", "has none of text, file, data", "give exactly one of them")
	case n > 1:
		return "", problem("", "has more than one of text, file, data", "give exactly one of them")
	case in.Kind == "" && r.dialect == RPC && !r.lax:
		return "", problem("/kind", "is required", `write "`+kind+`"`)
	case in.Kind != "" && r.dialect == Proto && !r.lax:
		return "", problem("/kind", "is no member of ProtoJSON", "leave it out")
	case in.Kind != "" && in.Kind != kind:
		return "", problem("/kind", "is not what the part holds", `write "`+kind+`"`)
	}
	return kind, nil
}

func (r reader) fileToV1(in *oldFile, out *newPart) error {
	rpc := in.Bytes != nil || in.URI != nil
	proto := in.FileWithBytes != nil || in.FileWithURI != nil
	wrong := !r.lax && (rpc && r.dialect == Proto || proto && r.dialect == RPC)
	bytes, uri := in.Bytes, in.URI
	if proto {
		bytes, uri = in.FileWithBytes, in.FileWithURI
	}
	names := "bytes, uri"
	if r.dialect == Proto {
		names = "fileWithBytes, fileWithUri"
	}
	switch {
	case wrong, rpc == proto, bytes != nil && uri != nil:
		return problem("", "has not exactly one of "+names, "give one of them")
	case uri != nil:
		out.URL = uri
	case rpc:
		if !isBase64(*bytes) {
			return problem("/bytes", "is not base64", "encode the bytes in standard base64 with padding")
		}
		out.Raw = bytes
	default:
		content, ok := unwrapBase64(*bytes)
		if !ok {
			return problem("/fileWithBytes", "is not base64", "encode the bytes in standard base64 with padding")
		}
		out.Raw = &content
	}
	return nil
}

// unwrapBase64 reads the content of a file in ProtoJSON as base64. The field holds
// bytes, so one layer is JSON's; the 0.3 SDKs put base64 text into it, a second
// layer, which is taken off where it is there.
func unwrapBase64(text string) (string, bool) {
	outer, err := decodeBase64(text)
	if err != nil {
		return "", false
	}
	if inner, err := base64.StdEncoding.Strict().DecodeString(string(outer)); err == nil {
		return base64.StdEncoding.EncodeToString(inner), true
	}
	return base64.StdEncoding.EncodeToString(outer), true
}

// isBase64 accepts standard and URL-safe base64, padded or not, as ProtoJSON does.
func isBase64(text string) bool {
	_, err := decodeBase64(text)
	return err == nil
}

func decodeBase64(text string) ([]byte, error) {
	text = strings.TrimRight(text, "=")
	if strings.ContainsAny(text, "-_") {
		return base64.RawURLEncoding.DecodeString(text)
	}
	return base64.RawStdEncoding.DecodeString(text)
}

func (r reader) dataToV1(in *oldPart, out *newPart) error {
	value, at := in.Data, "/data"
	if in.Kind == "" { // ProtoJSON has a message around it
		var data oldData
		if err := r.into(in.Data, &data); err != nil {
			return under("data", err)
		}
		value, at = data.Data, "/data/data"
	}
	if len(value) == 0 || value[0] != '{' {
		if !r.lax || len(value) == 0 {
			return problem(at, "must be an object", "put the value into one")
		}
	}
	out.Data = value
	if !bytes.Contains(out.Metadata, []byte(keyData)) {
		return nil
	}
	if mark, ok := jsonwire.Get(out.Metadata, "/"+keyData); !ok || string(mark) != "true" {
		return nil
	}
	inner, ok := jsonwire.Get(value, "/value")
	if !ok {
		return nil // a mark of somebody else's
	}
	out.Data = inner
	var err error
	out.Metadata, err = drop(out.Metadata, keyData)
	return err
}

func partsFromV1(parts []newPart, d Dialect) ([]oldPart, error) {
	out := make([]oldPart, len(parts))
	for i := range parts {
		if err := partFromV1(&parts[i], &out[i], d); err != nil {
			return nil, under(strconv.Itoa(i), err)
		}
	}
	return out, nil
}

func partFromV1(in *newPart, out *oldPart, d Dialect) error {
	if err := unreserved(in.Metadata, KeyV1); err != nil {
		return err
	}
	out.Metadata = given(in.Metadata)
	file := in.Raw != nil || in.URL != nil
	if !file && (in.MediaType != "" || in.Filename != "") {
		var err error
		if out.Metadata, err = pack(out.Metadata, KeyV1, carriedV1{MediaType: in.MediaType, Filename: in.Filename}); err != nil {
			return err
		}
	}
	kind := "data"
	switch {
	case in.Text != nil:
		kind, out.Text = "text", in.Text
	case file:
		kind, out.File = "file", &oldFile{MimeType: in.MediaType, Name: in.Filename}
		fileFromV1(in, out.File, d)
	default:
		if err := dataFromV1(in, out, d); err != nil {
			return err
		}
	}
	if d == RPC {
		out.Kind = kind
	}
	return nil
}

func fileFromV1(in *newPart, out *oldFile, d Dialect) {
	switch {
	case d == RPC:
		out.Bytes, out.URI = in.Raw, in.URL
	case in.URL != nil:
		out.FileWithURI = in.URL
	default:
		content := *in.Raw
		if plain, err := decodeBase64(content); err == nil {
			content = base64.StdEncoding.EncodeToString(plain)
		}
		twice := base64.StdEncoding.EncodeToString([]byte(content))
		out.FileWithBytes = &twice
	}
}

func dataFromV1(in *newPart, out *oldPart, d Dialect) (err error) {
	value := in.Data
	if value[0] != '{' {
		value = append(append(jsontext.Value(`{"value":`), value...), '}')
		if out.Metadata == nil {
			out.Metadata = jsontext.Value("{}")
		}
		if out.Metadata, err = jsonwire.Set(out.Metadata, "/"+keyData, jsontext.Value("true")); err != nil {
			return err
		}
	}
	if d == Proto {
		value, err = jsonwire.Marshal(oldData{value})
	}
	out.Data = value
	return err
}
