package v03

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// Keys of metadata that belong to the translation.
const (
	KeyV1  = "parley_v1"  // holds members of 1.0 in a 0.3 message
	KeyV03 = "parley_v03" // holds members of 0.3 in a 1.0 message
	// keyData marks a data part whose value stands under "value", since 0.3 knows
	// objects only. The 0.3 SDKs know it too.
	keyData = "data_part_compat"
)

// carriedV1 are the members of 1.0 that 0.3 has no place for.
type carriedV1 struct {
	MediaType     string `json:"mediaType,omitzero"` // of a text or data part
	Filename      string `json:"filename,omitzero"`  // the same
	HistoryLength *int32 `json:"historyLength,omitzero" wire:"min=0"`
}

// carriedV03 are the members of 0.3 that 1.0 has no place for.
type carriedV03 struct {
	Final   *bool `json:"final,omitzero"`   // where it does not follow from the state
	NoParts bool  `json:"noParts,omitzero"` // of a message or artifact: its one empty text stands for none
}

// pack puts what a message carries into its metadata.
func pack(metadata jsontext.Value, key string, carried any) (jsontext.Value, error) {
	raw, err := jsonwire.Marshal(carried)
	if err != nil {
		return nil, err
	}
	if metadata == nil {
		metadata = jsontext.Value("{}")
	}
	return jsonwire.Set(metadata, "/"+key, raw)
}

// unpack takes what a message carries out of its metadata, which is absent then
// if nothing else was in it.
func (r reader) unpack(metadata jsontext.Value, key string, into any) (jsontext.Value, error) {
	if !bytes.Contains(metadata, []byte(key)) {
		return given(metadata), nil
	}
	raw, ok := jsonwire.Get(metadata, "/"+key)
	if !ok {
		return metadata, nil
	}
	if err := r.into(raw, into); err != nil {
		return nil, under("metadata", under(key, err))
	}
	return drop(metadata, key)
}

func drop(metadata jsontext.Value, key string) (jsontext.Value, error) {
	rest, err := jsonwire.Delete(metadata, "/"+key)
	if err != nil || len(jsonwire.Members(rest)) == 0 {
		return nil, err
	}
	return rest, nil
}

// unreserved refuses metadata that uses the key for something of its own, since it
// would be misread on the way back.
func unreserved(metadata jsontext.Value, key string) error {
	if !bytes.Contains(metadata, []byte(key)) {
		return nil
	}
	if _, ok := jsonwire.Get(metadata, "/"+key); ok {
		return problem("/metadata/"+key, "belongs to the translation between protocol versions", "use another key")
	}
	return nil
}
