//go:build linux

package app_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/parleytest"
)

// TestTheServiceManagerIsTold: that the mesh serves once it does, and that it
// stops, over the socket that the environment names.
func TestTheServiceManagerIsTold(t *testing.T) {
	path := filepath.Join(parleytest.Dir(t), "n")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	told := func() string {
		t.Helper()
		if err := l.SetReadDeadline(time.Now().Add(parleytest.Patience)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 1024)
		n, err := l.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
	m := parleytest.Start(t, parleytest.Options{})
	if got := told(); !strings.HasPrefix(got, "READY=1\n") || !strings.Contains(got, m.Ready.Listen) {
		t.Errorf("told %q at the start", got)
	}
	m.Stop()
	if got := told(); got != "STOPPING=1" {
		t.Errorf("told %q at the stop", got)
	}
}
