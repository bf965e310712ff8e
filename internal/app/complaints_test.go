package app

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// Failed handshakes are told in one line, whoever floods the mesh with them.
func TestHandshakesAreToldInOneLine(t *testing.T) {
	var log bytes.Buffer
	c := &complaints{log: slog.New(slog.NewTextHandler(&log, nil))}
	for i := range 1000 {
		c.logger().Printf("http: TLS handshake error from 192.0.2.1:%d: EOF", i)
	}
	c.summarise()
	c.summarise()
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "count=1000") || !strings.Contains(got, "192.0.2.1:999: EOF") {
		t.Errorf("logged\n%s", got)
	}
	log.Reset()
	fmt.Fprint(c, "http: something else")
	c.summarise()
	if log.Len() > 0 {
		t.Errorf("logged\n%s", log.String())
	}
}
