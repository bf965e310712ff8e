package vault

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// The two vectors of the XAES-256-GCM specification (C2SP).
func TestXAESVectors(t *testing.T) {
	nonce := []byte("ABCDEFGHIJKLMNOPQRSTUVWX")
	for _, test := range []struct {
		key       byte
		aad, want string
	}{
		{0x01, "", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"},
		{0x03, "c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"},
	} {
		x := newXAES([keySize]byte(bytes.Repeat([]byte{test.key}, keySize)))
		got := x.seal(nil, nonce, []byte("XAES-256-GCM"), []byte(test.aad))
		if hex.EncodeToString(got) != test.want {
			t.Errorf("key %x: sealed to %x, want %s", test.key, got, test.want)
		}
	}
}

// keyTable keeps data keys in memory.
type keyTable struct {
	mu   sync.Mutex
	keys map[parley.OwnerName]*DataKey
}

func (k *keyTable) DataKey(_ context.Context, owner parley.OwnerName) (*DataKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if key := k.keys[owner]; key != nil {
		return key, nil
	}
	return nil, parley.E("test", parley.NotFound, "", "", nil)
}

func (k *keyTable) CreateDataKey(_ context.Context, key *DataKey) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys[key.Owner] != nil {
		return parley.E("test", parley.Conflict, "", "", nil)
	}
	k.keys[key.Owner] = key
	return nil
}

func newVault(t testing.TB, master byte) (*Vault, *keyTable) {
	t.Helper()
	keys := &keyTable{keys: map[parley.OwnerName]*DataKey{}}
	m := &Master{key: [keySize]byte(bytes.Repeat([]byte{master}, keySize))}
	return New(m, keys, time.Now), keys
}

// What earlier versions sealed must open for ever: master key, wrapped data
// key and sealed value are fixed here.
func TestOpensWhatWasSealedBefore(t *testing.T) {
	const (
		wrapped = "000102030405060708090a0b0c0d0e0f1011121314151617" + goldenWrapped
		sealed  = "01" + "18191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f" + goldenSealed
	)
	v, keys := newVault(t, 7)
	if id := v.master.ID(); id != goldenID {
		t.Errorf("master id %s, want %s", id, goldenID)
	}
	keys.keys["alpha"] = &DataKey{Owner: "alpha", Master: goldenID, Wrapped: unhex(t, wrapped)}
	got, err := v.Open(t.Context(), "alpha", Place{"tasks", "echo/1", "snapshot"}, unhex(t, sealed))
	if err != nil || string(got) != "hello" {
		t.Errorf("opened %q, %v, want hello", got, err)
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSealedValueOpensOnlyAsItWasSealed(t *testing.T) {
	ctx := t.Context()
	v, keys := newVault(t, 1)
	place := Place{"tasks", "1", "snapshot"}
	secret := []byte("correct horse battery staple")
	sealed, err := v.Seal(ctx, "alpha", place, secret)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, secret[:8]) || len(sealed) != len(secret)+minSealed {
		t.Fatalf("sealed to %d bytes %x", len(sealed), sealed)
	}
	if _, err := v.Seal(ctx, "beta", place, secret); err != nil {
		t.Fatal(err)
	}
	for _, where := range []struct {
		name  string
		owner parley.OwnerName
		place Place
	}{
		{"another owner", "beta", place},
		{"another table", "alpha", Place{"task", "1", "snapshot"}},
		{"another row", "alpha", Place{"tasks", "2", "snapshot"}},
		{"another column", "alpha", Place{"tasks", "1", "secret"}},
		{"a shifted boundary", "alpha", Place{"tasks1", "", "snapshot"}},
	} {
		if got, err := v.Open(ctx, where.owner, where.place, sealed); err == nil {
			t.Errorf("%s: opened as %q", where.name, got)
		}
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 0x40
		if got, err := v.Open(ctx, "alpha", place, changed); err == nil {
			t.Errorf("byte %d changed: opened as %q", i, got)
		}
	}
	for _, n := range []int{0, 1, minSealed - 1, len(sealed) - 1} {
		if got, err := v.Open(ctx, "alpha", place, sealed[:n]); err == nil {
			t.Errorf("cut to %d bytes: opened as %q", n, got)
		}
	}
	again := New(v.master, keys, time.Now) // as after a restart
	if got, err := again.Open(ctx, "alpha", place, sealed); err != nil || !bytes.Equal(got, secret) {
		t.Errorf("after a restart: %q, %v", got, err)
	}
	other, _ := newVault(t, 2)
	other.keys = keys
	if _, err := other.Open(ctx, "alpha", place, sealed); err == nil || !strings.Contains(err.Error(), "master key") {
		t.Errorf("another master key: %v, want an error that names the master key", err)
	}
	// A wrapped key moved to another owner opens for nobody.
	keys.keys["gamma"] = &DataKey{Owner: "gamma", Master: v.master.ID(), Wrapped: keys.keys["alpha"].Wrapped}
	if _, err := v.Seal(ctx, "gamma", place, secret); err == nil {
		t.Error("sealed under a data key that was moved from another owner")
	}
}

func TestOneDataKeyPerOwnerUnderRace(t *testing.T) {
	v, _ := newVault(t, 1)
	place := Place{"t", "r", "c"}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			sealed, err := v.Seal(t.Context(), "alpha", place, []byte("x"))
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := v.Open(t.Context(), "alpha", place, sealed); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestMasterKeyFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, MasterFile)
	if _, err := Source("").Load(dir); parley.KindOf(err) != parley.NotFound {
		t.Errorf("no key yet: %v, want not found", err)
	}
	made, err := Source("").Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", st.Mode(), err)
	}
	loaded, err := Source("").Load(dir)
	if err != nil || *loaded != *made {
		t.Errorf("loaded %v, %v, want %v", loaded, err, made)
	}
	if _, err := Source("").Create(dir); err == nil {
		t.Error("a second key replaced the first")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v: temporary files are left", entries, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PARLEY_TEST_MASTER", string(text))
	if m, err := Source("env:PARLEY_TEST_MASTER").Load(dir); err != nil || *m != *made {
		t.Errorf("from the environment: %v, %v", m, err)
	}
	if m, err := Source("file:" + path).Load("elsewhere"); err != nil || *m != *made {
		t.Errorf("from a named file: %v, %v", m, err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if s := fmt.Sprintf(verb, made); strings.Contains(s, base64.StdEncoding.EncodeToString(made.key[:])) || s != made.String() {
			t.Errorf("%s prints %q", verb, s)
		}
	}
}

func TestMasterKeyIsRefused(t *testing.T) {
	good := base64.StdEncoding.EncodeToString(make([]byte, keySize))
	for _, test := range []struct {
		name, text string
		mode       os.FileMode
		want       string
	}{
		{"readable by the group", good, 0o640, "chmod 600"},
		{"readable by all", good, 0o604, "chmod 600"},
		{"too short", good[:20], 0o600, "32 bytes in base64"},
		{"no base64", "!", 0o600, "32 bytes in base64"},
		{"huge", strings.Repeat("A", maxKeyFile+1), 0o600, "larger than a key"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, MasterFile)
		if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, test.mode); err != nil {
			t.Fatal(err)
		}
		_, err := Source("").Load(dir)
		if parley.KindOf(err) != parley.Invalid || !strings.Contains(parley.PublicMessage(err), test.want) {
			t.Errorf("%s: %v, want invalid with %q", test.name, err, test.want)
		}
	}
	for _, s := range []Source{"file:", "kms:x", "/some/path"} {
		if _, err := s.Load(t.TempDir()); parley.KindOf(err) != parley.Invalid {
			t.Errorf("source %q: %v, want invalid", s, err)
		}
	}
	if _, err := Source("env:PARLEY_TEST_UNSET").Load(""); parley.KindOf(err) != parley.NotFound || !strings.Contains(err.Error(), "PARLEY_TEST_UNSET") {
		t.Errorf("an unset variable: %v, want not found with its name", err)
	}
}

func BenchmarkSeal(b *testing.B) {
	v, _ := newVault(b, 1)
	for _, size := range []int{64, 1024, 4096} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			plaintext := make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v.Seal(b.Context(), "alpha", Place{"tasks", "echo", "snapshot"}, plaintext); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

const (
	goldenID      = "fb9a635b792b18cf"
	goldenWrapped = "674cbf4c8591aa28b9b54bbda6d68d0d2fa4183a037498a3f45abe44b079249f4bf5f9a04c09828b6f8cd620755b6cbb"
	goldenSealed  = "4eabbf0613dac3a3532440cafb84b7e9a9dc9046ee"
)
