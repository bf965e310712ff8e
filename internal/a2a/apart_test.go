package a2a

import (
	"fmt"
	"strings"
	"testing"
)

// A panic apart is the caller's, and tells where it came from.
func TestApartPanics(t *testing.T) {
	defer func() {
		text := fmt.Sprint(recover())
		if !strings.HasPrefix(text, "broken\n") || !strings.Contains(text, "TestApartPanics") {
			t.Errorf("got %q, want the panic and its stack", text)
		}
	}()
	Apart(func() { panic("broken") })
	t.Error("apart returned")
}
