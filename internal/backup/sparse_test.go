package backup_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/backup"
)

// TestHoles: a small archive that says it holds a file of a terabyte, all of it
// holes, is refused before anything of it is written.
func TestHoles(t *testing.T) {
	const size = 1 << 40
	var archive bytes.Buffer
	manifest := fmt.Sprintf(`{"format":1,"mesh":"m","program":"p","schema":1,"madeAt":"2026-01-01T00:00:00Z","files":[{"name":"parley.db","size":%d,"sha256":"00"}]}`, int64(size))
	w := tar.NewWriter(&archive)
	write(t, w, "manifest.json", []byte(manifest))
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	// archive/tar reads such files and does not write them.
	record := func(name, value string) string {
		line := " " + name + "=" + value + "\n"
		n := len(line) + 2
		return fmt.Sprint(n) + line
	}
	write(t, w, "x", nil)
	raw := archive.Bytes()
	at := len(raw) - 512
	records := record("GNU.sparse.major", "1") + record("GNU.sparse.minor", "0") + record("GNU.sparse.name", "parley.db") + record("GNU.sparse.realsize", fmt.Sprint(int64(size)))
	head := func(typ byte, content string) []byte {
		var b bytes.Buffer
		one := tar.NewWriter(&b)
		write(t, one, "x", []byte(content))
		if err := one.Flush(); err != nil {
			t.Fatal(err)
		}
		out := b.Bytes()
		out[156] = typ
		sum := 0
		for i, c := range out[:512] {
			if i >= 148 && i < 156 {
				c = ' '
			}
			sum += int(c)
		}
		copy(out[148:], fmt.Sprintf("%06o\x00 ", sum))
		return out
	}
	content := fmt.Sprintf("1\n%d\n0\n", int64(size))
	raw = append(append(append(raw[:at:at], head('x', records)...), head('0', content+strings.Repeat("\x00", 512-len(content)))...), make([]byte, 1024)...)
	_, err := backup.Read(context.Background(), bytes.NewReader(raw), func(*backup.Manifest, backup.File) (io.WriteCloser, error) {
		t.Error("the file was opened")
		return nil, io.ErrClosedPipe
	})
	if err == nil || !strings.Contains(err.Error(), "sparse") {
		t.Errorf("got %v", err)
	}
}

func write(t *testing.T, w *tar.Writer, name string, content []byte) {
	t.Helper()
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
}
