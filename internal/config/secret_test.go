package config

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// TestSecretNeverPrints tries every way a struct is usually written out.
func TestSecretNeverPrints(t *testing.T) {
	const plain = "hunter2"
	type exported struct{ S Secret }
	type hidden struct{ s Secret }
	secret := NewSecret(plain)
	var outputs []string
	add := func(text string) { outputs = append(outputs, text) }

	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%p", "%10.2s"} {
		for _, v := range []any{secret, &secret, exported{secret}, &exported{secret}, hidden{secret}, []Secret{secret}, map[string]Secret{"k": secret}} {
			add(fmt.Sprintf(verb, v))
		}
	}
	marshal := func(raw []byte, err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
		add(string(raw))
	}
	marshal(json.Marshal(exported{secret}))
	marshal(yaml.Marshal(exported{secret}))
	marshal(xml.Marshal(exported{secret}))
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "s", secret, "in", exported{secret}, "hidden", hidden{secret})
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "s", secret, "in", exported{secret}, "hidden", hidden{secret})
	add(log.String())
	add(errors.Join(fmt.Errorf("with %v", secret)).Error())

	for _, out := range outputs {
		for _, form := range []string{plain, fmt.Sprintf("%x", plain), fmt.Sprintf("%X", plain)} {
			if strings.Contains(out, form) {
				t.Errorf("the secret shows: %q", out)
			}
		}
	}
	if got := fmt.Sprint(exported{secret}); got != "{[redacted]}" {
		t.Errorf("got %q, want {[redacted]}", got)
	}
	if secret.Reveal() != plain || !secret.IsSet() || (Secret{}).IsSet() || (Secret{}).Reveal() != "" {
		t.Error("Reveal or IsSet lost the value")
	}
}
