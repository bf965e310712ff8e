package vault

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-mesh/parley/internal/parley"
)

// MasterFile is the name of the master key's file in the data directory.
const MasterFile = "master.key"

// maxKeyFile is the size in bytes above which a file is no key file.
const maxKeyFile = 1024

// Master is the mesh's master key. It prints as its id, never as the key.
type Master struct{ key [keySize]byte }

// Source says where the master key comes from: "" for MasterFile in the data
// directory, "env:NAME" for an environment variable, "file:PATH" for a file.
// Only MasterFile is ever made; the others must be there.
type Source string

// Load reads the master key. A key that is not there is a parley.NotFound
// error, one that cannot be used parley.Invalid.
func (s Source) Load(dir string) (*Master, error) {
	const op parley.Op = "vault.load"
	if name, ok := strings.CutPrefix(string(s), "env:"); ok {
		text, ok := os.LookupEnv(name)
		if !ok || text == "" {
			return nil, parley.E(op, parley.NotFound, parley.Subject(name), "the environment variable "+name+" does not hold the master key: set it to 32 bytes in base64", nil)
		}
		return decodeMaster(op, "the environment variable "+name, text)
	}
	path, err := s.path(dir)
	if err != nil {
		return nil, err
	}
	text, err := readPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, parley.E(op, parley.NotFound, parley.Subject(path), "there is no master key at "+path, err)
	}
	if err != nil {
		return nil, parley.E(op, parley.Invalid, parley.Subject(path), "the master key cannot be read: "+err.Error(), err)
	}
	return decodeMaster(op, path, text)
}

// Create makes a new master key where the source is MasterFile in dir; it
// never replaces one. For other sources it says that the key must be put
// there.
func (s Source) Create(dir string) (*Master, error) {
	const op parley.Op = "vault.create"
	if s != "" {
		_, err := s.Load(dir)
		if err == nil {
			err = parley.E(op, parley.Conflict, "", "the master key is there already", nil)
		}
		return nil, err
	}
	m := new(Master)
	if _, err := rand.Read(m.key[:]); err != nil {
		return nil, parley.E(op, parley.Internal, "", "no randomness for a master key", err)
	}
	path := filepath.Join(dir, MasterFile)
	if err := writePrivate(path, base64.StdEncoding.EncodeToString(m.key[:])+"\n"); err != nil {
		return nil, parley.E(op, parley.Unavailable, parley.Subject(path), "the master key cannot be written to "+path+": check that the directory is writable and its disk has room", err)
	}
	return m, nil
}

func (s Source) path(dir string) (string, error) {
	if s == "" {
		return filepath.Join(dir, MasterFile), nil
	}
	path, ok := strings.CutPrefix(string(s), "file:")
	if !ok || path == "" {
		return "", parley.E("vault.load", parley.Invalid, parley.Subject(s), "the master key's source is neither env:NAME nor file:PATH", nil)
	}
	return path, nil
}

// readPrivate reads a small file that nobody but its owner may read.
func readPrivate(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	if perm := st.Mode().Perm(); perm&0o077 != 0 && !entrusted(st) {
		return "", fmt.Errorf("%s has permissions %#o, so others may read it: run chmod 600 %s", path, perm, path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err == nil && len(b) > maxKeyFile {
		err = fmt.Errorf("%s is larger than a key", path)
	}
	return string(b), err
}

// writePrivate makes a file that survives a power cut and replaces none. The
// name appears only once the content is whole.
func writePrivate(path, text string) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".master-*") // 0600 by its contract
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Link(f.Name(), path)
	}
	if err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func decodeMaster(op parley.Op, where, text string) (*Master, error) {
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || len(b) != keySize {
		return nil, parley.E(op, parley.Invalid, "", "the master key in "+where+" is not 32 bytes in base64: restore it from its backup", nil)
	}
	return &Master{key: [keySize]byte(b)}, nil
}

// ID tells master keys apart without giving anything of them away.
func (m *Master) ID() string {
	id := m.derive("parley/vault/v1/id")
	return hex.EncodeToString(id[:8])
}

// String is the key's id.
func (m *Master) String() string { return "master:" + m.ID() }

// GoString is the key's id, so that no format verb prints the key.
func (m *Master) GoString() string { return m.String() }

func (m *Master) derive(info string) [keySize]byte {
	b, err := hkdf.Key(sha256.New, m.key[:], nil, info, keySize)
	if err != nil { // only a length over 255 hashes fails
		panic(err)
	}
	return [keySize]byte(b)
}
