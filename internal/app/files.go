package app

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Ready is the content of the ready file: where a serving process answers.
// Addresses are complete URLs without a trailing slash.
type Ready struct {
	PID     int    `json:"pid"`
	Mesh    string `json:"mesh"`
	Listen  string `json:"listen"`
	Control string `json:"control"`
	GRPC    string `json:"grpc,omitempty"` // host:port for callers; the host may be "*.HOST"
	// GRPCListen is the host:port that the gRPC listener is bound to.
	GRPCListen string `json:"grpcListen,omitempty"`
	Ops        string `json:"ops,omitempty"`
	Public     string `json:"public"`
	Socket     string `json:"socket"`
	AdminKey   string `json:"adminKey"` // path of the admin key file
	Data       string `json:"data"`
}

// writeJSONFile writes v whole or not at all, readable by its owner only.
func writeJSONFile(path string, v any) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(path, append(raw, '\n'))
}

// writeFile replaces a file by rename, so that no reader sees half of it.
func writeFile(path string, content []byte) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreMissing(os.Remove(tmp.Name())))
		}
	}()
	if err := tmp.Chmod(0o600); err != nil {
		return errors.Join(err, tmp.Close())
	}
	if _, err := tmp.Write(content); err != nil {
		return errors.Join(err, tmp.Close())
	}
	if err := tmp.Sync(); err != nil {
		return errors.Join(err, tmp.Close())
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
