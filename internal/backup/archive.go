package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/store"
)

// Format is the version of archives that this program writes and reads.
const Format = 1

// manifestName is the archive's first entry.
const manifestName = "manifest.json"

const (
	maxManifest = 64 << 10 // bytes
	maxFiles    = 16
)

// Manifest says what an archive holds.
type Manifest struct {
	Format  int       `json:"format"`
	Mesh    string    `json:"mesh"`    // id of the mesh
	Program string    `json:"program"` // version that made it
	Schema  int64     `json:"schema"`  // version of the database's schema
	MadeAt  time.Time `json:"madeAt"`
	// MasterKey is the id of the key that opens what is sealed; it is not here.
	MasterKey string `json:"masterKey,omitempty"`
	Files     []File `json:"files"`
}

// File is one file of an archive, in the archive's order.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"` // bytes
	SHA256 string `json:"sha256"`
}

// Write makes an archive of a copied database.
func Write(ctx context.Context, w io.Writer, copied *store.Snapshot, program string, now time.Time) (*Manifest, error) {
	f, err := os.Open(copied.File)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	hash := sha256.New()
	size, err := io.Copy(hash, reading(ctx, f))
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	m := &Manifest{
		Format: Format, Mesh: copied.Mesh, Program: program, Schema: copied.Schema, MadeAt: now.UTC().Truncate(time.Second), MasterKey: copied.Master,
		Files: []File{{store.DatabaseFile, size, hex.EncodeToString(hash.Sum(nil))}},
	}
	head, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	t := tar.NewWriter(w)
	if err := entry(t, manifestName, int64(len(head)), m.MadeAt); err != nil {
		return nil, err
	}
	if _, err := t.Write(head); err != nil {
		return nil, err
	}
	if err := entry(t, store.DatabaseFile, size, m.MadeAt); err != nil {
		return nil, err
	}
	if _, err := io.Copy(t, reading(ctx, f)); err != nil {
		return nil, err
	}
	return m, t.Close()
}

func entry(t *tar.Writer, name string, size int64, at time.Time) error {
	return t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: at})
}

// reading ends with ctx.
func reading(ctx context.Context, r io.Reader) io.Reader { return contextReader{ctx, r} }

type contextReader struct {
	ctx context.Context
	io.Reader
}

// Read implements io.Reader.
func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// Read reads an archive to its end. Each file's content goes to the writer that
// open gives for it; nil for open only checks. An archive that is cut off,
// damaged or not understood is a parley.Invalid error; whatever was written for
// it by then is worth nothing.
func Read(ctx context.Context, r io.Reader, open func(*Manifest, File) (io.WriteCloser, error)) (*Manifest, error) {
	t := tar.NewReader(reading(ctx, r))
	m, err := readManifest(t)
	if err != nil {
		return nil, err
	}
	for _, want := range m.Files {
		if err := readFile(t, m, want, open); err != nil {
			return nil, err
		}
	}
	if _, err := t.Next(); !errors.Is(err, io.EOF) {
		return nil, unusable("there is more in it than its manifest says", err)
	}
	return m, nil
}

func readManifest(t *tar.Reader) (*Manifest, error) {
	head, err := t.Next()
	if err != nil {
		return nil, unusable("it is no backup of a mesh", err)
	}
	if head.Name != manifestName || head.Size > maxManifest {
		return nil, unusable("it is no backup of a mesh: it does not begin with "+manifestName, nil)
	}
	raw, err := io.ReadAll(io.LimitReader(t, maxManifest))
	if err != nil {
		return nil, unusable("it is cut off", err)
	}
	var m Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, unusable("its manifest cannot be read", err)
	}
	known, err := store.NewestSchema()
	switch {
	case err != nil:
		return nil, err
	case m.Format != Format:
		return nil, unusable(fmt.Sprintf("its format is %d and this program reads %d: use the program that made it (%s)", m.Format, Format, m.Program), nil)
	case m.Schema > known:
		return nil, unusable(fmt.Sprintf("its database has schema version %d and this program knows versions up to %d: use the newer program that made it (%s)", m.Schema, known, m.Program), nil)
	case len(m.Files) == 0 || len(m.Files) > maxFiles:
		return nil, unusable("its manifest names no files, or too many", nil)
	}
	for _, f := range m.Files {
		if f.Name != store.DatabaseFile { // the only one there is; and no path out of the directory
			return nil, unusable(fmt.Sprintf("its manifest names the file %.80q, which no data directory has", f.Name), nil)
		}
	}
	return &m, nil
}

func readFile(t *tar.Reader, m *Manifest, want File, open func(*Manifest, File) (io.WriteCloser, error)) (err error) {
	head, err := t.Next()
	switch {
	case err != nil:
		return unusable("it is cut off before "+want.Name, err)
	case head.Name != want.Name || head.Typeflag != tar.TypeReg || head.Size != want.Size:
		return unusable(want.Name+" is not as its manifest says", nil)
	}
	for record := range head.PAXRecords {
		// Holes take no room in an archive: a small one would fill the disk.
		if strings.HasPrefix(record, "GNU.sparse.") {
			return unusable(want.Name+" is a sparse file, which no backup has", nil)
		}
	}
	hash := sha256.New()
	var to io.Writer = hash
	if open != nil {
		f, err := open(m, want)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		to = io.MultiWriter(hash, f)
	}
	if _, err := io.Copy(to, t); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return unusable("it is cut off inside "+want.Name, err)
		}
		return err
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != want.SHA256 {
		return unusable(fmt.Sprintf("%s is damaged: its SHA-256 is %s, not %s", want.Name, got, want.SHA256), nil)
	}
	return nil
}

func unusable(why string, cause error) error {
	return parley.E("backup.read", parley.Invalid, "", "the backup cannot be used: "+why, cause)
}
