package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStoreNeverPrintsItsPassword: not in any print-out, whichever way the
// address was given.
func TestStoreNeverPrintsItsPassword(t *testing.T) {
	const address = "postgres://mesh:hunter2@db-1:5432,db-2:5433/mesh?sslmode=verify-full&sslpassword=hunter2"
	file := filepath.Join(t.TempDir(), "address")
	if err := os.WriteFile(file, []byte(address+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, shown := range map[string]string{
		address:                   "postgres://mesh@db-1:5432,db-2:5433/mesh",
		"file:" + file:            "file:" + file,
		"env:PARLEY_TEST_ADDRESS": "env:PARLEY_TEST_ADDRESS",
	} {
		c := mustLoad(t, "store: \""+text+"\"", []string{"PARLEY_TEST_ADDRESS=" + address})
		if got, ok := c.Store.Postgres(); !ok || got != address {
			t.Errorf("%s: the address is %q, %t", text, got, ok)
		}
		var out bytes.Buffer
		if err := c.WriteEffective(&out); err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(c.Store)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s %v %+v %#v %q %v", raw, c.Store, c, c.Store, c.Store, c.Effective())
		if strings.Contains(out.String(), "hunter2") || !strings.Contains(out.String(), shown) {
			t.Errorf("%s prints as:\n%s", text, out.String())
		}
	}
	if _, ok := mustLoad(t, "store: sqlite", nil).Store.Postgres(); ok {
		t.Error("sqlite is taken for PostgreSQL")
	}
}

// TestAddressesThatEndInTheirPassword: an address whose password is not escaped is
// refused, and neither that nor what is printed repeats a part of it.
func TestAddressesThatEndInTheirPassword(t *testing.T) {
	for _, address := range []string{
		"postgres://mesh:12/hunter2@db-1:5432/mesh", "postgres://mesh:12#hunter2@db-1:5432/mesh", "postgres://mesh:12?hunter2@db-1:5432/mesh",
		"postgres://mesh:12?hunter2=@db-1:5432/mesh#", "postgres://mesh:hunter2%zz@db-1/mesh", "postgres://mesh:hunter2/x@db-1/mesh",
	} {
		s, err := ParseStore(address, nil)
		if shown := PostgresStore(address).String(); strings.Contains(shown, "hunter2") || strings.Contains(shown, "12") {
			t.Errorf("%s prints as %s", address, shown)
		}
		if err == nil || !strings.Contains(err.Error(), "%2F for /") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, %v", address, s, err)
		}
		byReference, err := ParseStore("env:STORE", []string{"STORE=" + address})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s by reference: %v, %v", address, byReference, err)
		}
	}
	for _, good := range []string{"postgres://mesh:a%2Fb@db-1:5432,db-2:5432/mesh", "postgres://db/mesh?user=mesh&password=a@b", "postgres:///mesh?host=/run/postgresql", "postgres://mesh@[::1]:5432/mesh"} {
		if _, err := ParseStore(good, nil); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}
