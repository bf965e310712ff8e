package a2agrpc

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// wrapped is raw as the content of a field.
func wrapped(number protowire.Number, raw []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), raw)
}

// TestCrowds: a message of many tiny ones takes a multiple of its size in memory
// that is bounded, in both directions of the translation; one of many numbers, as a
// caller may well send, passes.
func TestCrowds(t *testing.T) {
	limits := jsonwire.Limits{MaxBytes: 1 << 20}
	size := int(limits.Bytes()) - 256
	wire := func(value []byte) func() error {
		list := wrapped(2, wrapped(5, wrapped(4, wrapped(6, bytes.Repeat(wrapped(1, value), size/(len(value)+2))))))
		return func() error { _, err := requestJSON(a2a.SendMessage, list, limits); return err }
	}
	text := func(value string) func() error {
		list := `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":[` + strings.Repeat(value+",", size/(len(value)+1)) + value + `]}]}}`
		return func() error {
			_, err := requestMessage(a2a.SendMessage, jsontext.Value(list), limits)
			return err
		}
	}
	parts := wrapped(2, bytes.Repeat(wrapped(5, nil), size/2))
	for _, test := range []struct {
		what   string
		read   func() error
		passes bool
	}{
		{"empty parts", func() error { _, err := requestJSON(a2a.SendMessage, parts, limits); return err }, false},
		{"empty values", wire(nil), false},
		{"numbers", wire([]byte{0x11, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f}), true},
		{"digits", text("0"), false},
		{"numbers in JSON", text("0.123456789"), true},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := test.read()
		runtime.ReadMemStats(&after)
		if (err == nil) != test.passes || err != nil && !strings.Contains(err.Error(), "more than 131072 parts and values") {
			t.Errorf("%s: %v", test.what, err)
		}
		if times := (after.TotalAlloc - before.TotalAlloc) / uint64(limits.Bytes()); times > 40 {
			t.Errorf("%s: took %d times its size in memory", test.what, times)
		} else {
			t.Logf("%s: %d times", test.what, times)
		}
	}
}
