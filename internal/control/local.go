package control

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// What a serving mesh leaves in its data directory for the command line on the
// same machine.
const (
	// SocketFile is the mesh's own Unix socket, which serves this API and the
	// edge; whoever may open it is the local admin.
	SocketFile = "parley.sock"
	// AdminKeyFile holds an AdminKey as JSON.
	AdminKeyFile = "admin.key"
)

// AdminKey is the content of AdminKeyFile: the credential of the HTTP
// listener's administrator, and where it may be sent. The command line sends
// Key to no other origin.
type AdminKey struct {
	Origin string `json:"origin"` // scheme://host:port of the control API
	Mesh   string `json:"mesh"`   // the mesh's id
	Key    string `json:"key"`
}

// maxAdminKey is the most that is read of an admin key file, in bytes.
const maxAdminKey = 4 << 10

// ReadAdminKey reads an admin key file. A file that is not there is an
// fs.ErrNotExist.
func ReadAdminKey(path string) (*AdminKey, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the admin key: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxAdminKey))
	if err != nil {
		return nil, fmt.Errorf("read the admin key: %w", err)
	}
	var k AdminKey
	if err := json.Unmarshal(raw, &k); err != nil || k.Key == "" || k.Origin == "" {
		return nil, fmt.Errorf("read the admin key: %s is not the file that parley serve wrote", path)
	}
	return &k, nil
}
