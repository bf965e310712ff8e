package app

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mesh/parley/internal/certtest"
)

// A renewed certificate is served without a restart; one that is half written
// leaves the old one in use.
func TestCertificateFollowsItsFiles(t *testing.T) {
	dir := t.TempDir()
	cert, key, _ := certtest.Write(t, dir, 1)
	synctest.Test(t, func(t *testing.T) {
		k := &certKeeper{cert: cert, key: key}
		serial := func() int64 {
			t.Helper()
			time.Sleep(certCheck) // virtual
			got, err := k.get(nil)
			if err != nil {
				t.Fatal(err)
			}
			return got.Leaf.SerialNumber.Int64()
		}
		touch := func(after time.Duration) {
			t.Helper()
			at := k.stamp.Add(after)
			for _, path := range []string{cert, key} {
				if err := os.Chtimes(path, at, at); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := serial(); got != 1 {
			t.Fatalf("serial %d, want 1", got)
		}
		if err := os.WriteFile(cert, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		touch(time.Minute)
		if got := serial(); got != 1 {
			t.Errorf("serial %d while the file is half written, want the old 1", got)
		}
		certtest.Write(t, dir, 2)
		touch(2 * time.Minute)
		if got := serial(); got != 2 {
			t.Errorf("serial %d after a renewal, want 2", got)
		}
	})
}

func TestCertificateThatCannotBeLoadedIsAnError(t *testing.T) {
	if _, err := (&certKeeper{cert: "missing.pem", key: "missing.pem"}).get(nil); err == nil {
		t.Error("a missing certificate was served")
	}
}
