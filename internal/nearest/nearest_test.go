package nearest

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"listen", "control_listen", "ops_listen", "data", "durability"}
	for name, want := range map[string]string{"lisen": "listen", "lsiten": "listen", "opslisten": "ops_listen", "ops-listen": "ops_listen", "dat": "data", "xyz": "", "": ""} {
		if got := Of(name, known); got != want {
			t.Errorf("Of(%q) = %q, want %q", name, got, want)
		}
	}
}
