package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
)

const (
	redacted = "[redacted]"

	// maxSecretFile bounds what is read from a file a secret refers to. A PEM
	// key or a list of headers is far smaller.
	maxSecretFile = 64 * KiB
)

// Secret is a value that must not be seen. It comes only from a reference,
// file:PATH or env:NAME, and prints as [redacted] through fmt, JSON, YAML, text
// encoders and slog, whatever the verb. Only Reveal returns what it holds. The
// zero Secret is unset and prints the same way, so that print-outs do not tell
// whether one is set.
type Secret struct {
	// A pointer, because fmt does not call methods on unexported fields of
	// other packages' structs: it would print a string there, but prints only
	// the address of a pointer.
	value *string
	ref   string // where it came from: file:PATH with PATH resolved, or env:NAME
}

// NewSecret returns a Secret which holds value. It is for code that makes its
// own secrets and for tests; configuration makes its own from references.
func NewSecret(value string) Secret { return Secret{value: &value} }

// Reveal returns the secret itself. Whoever calls it answers for where the
// string goes.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// Reference returns where the secret came from, file:PATH or env:NAME, for code
// that reads it itself; empty if it is unset or was made by NewSecret.
func (s Secret) Reference() string { return s.ref }

// IsSet reports whether the secret holds a value.
func (s Secret) IsSet() bool { return s.value != nil }

// String returns [redacted].
func (s Secret) String() string { return redacted }

// GoString returns [redacted].
func (s Secret) GoString() string { return redacted }

// Format writes [redacted] for every verb and flag.
func (s Secret) Format(f fmt.State, _ rune) {
	// An error here has no way out of fmt, which ignores it as well.
	_, _ = io.WriteString(f, redacted)
}

// MarshalText returns [redacted]. JSON and YAML encoders use it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalYAML returns [redacted].
func (s Secret) MarshalYAML() (any, error) { return redacted, nil }

// LogValue returns [redacted].
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// resolveSecret reads what a reference points at. Errors never contain ref
// unless it has one of the two forms: somebody may have written the secret
// itself by mistake. One trailing line break of a file is dropped, as editors
// add it. The empty reference is the unset secret, as the effective print-out
// writes it.
func resolveSecret(ref, base string, getenv func(string) (string, bool)) (Secret, error) {
	if ref == "" {
		return Secret{}, nil
	}
	if path, ok := strings.CutPrefix(ref, "file:"); ok && path != "" {
		path = resolvePath(path, base)
		value, err := secretFromFile(path)
		if err != nil {
			return Secret{}, err
		}
		return Secret{value: &value, ref: "file:" + path}, nil
	}
	if name, ok := strings.CutPrefix(ref, "env:"); ok && name != "" {
		value, set := getenv(name)
		if !set || value == "" {
			return Secret{}, fmt.Errorf("the environment variable %s it refers to is not set: set it, or use file:PATH", name)
		}
		return Secret{value: &value, ref: ref}, nil
	}
	return Secret{}, errors.New("a secret is given by reference: write file:/path/to/file or env:NAME, not the secret itself")
}

func secretFromFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("the file %s it refers to does not exist", path)
		}
		return "", fmt.Errorf("read the file it refers to: %w", err)
	}
	defer f.Close() // read only: nothing can be lost
	raw, err := io.ReadAll(io.LimitReader(f, int64(maxSecretFile)+1))
	if err != nil {
		return "", fmt.Errorf("read the file it refers to: %w", err)
	}
	if ByteSize(len(raw)) > maxSecretFile {
		return "", fmt.Errorf("the file %s it refers to is larger than %s: is it the right file?", path, maxSecretFile)
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r")
	if value == "" {
		return "", fmt.Errorf("the file %s it refers to is empty", path)
	}
	return value, nil
}
