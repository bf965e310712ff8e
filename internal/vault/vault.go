package vault

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// DataKey is one owner's data key as it rests: wrapped under the master key.
type DataKey struct {
	Owner     parley.OwnerName
	Master    string // id of the master key that wraps it
	Wrapped   []byte
	CreatedAt time.Time
}

// Keys keeps wrapped data keys.
type Keys interface {
	// DataKey gives the owner's key, or a parley.NotFound error.
	DataKey(ctx context.Context, owner parley.OwnerName) (*DataKey, error)
	// CreateDataKey stores the key durably. Where the owner has one already it
	// changes nothing and returns a parley.Conflict error.
	CreateDataKey(ctx context.Context, k *DataKey) error
}

// Place is where a sealed value rests. It is part of what is sealed: the value
// opens nowhere else.
type Place struct {
	Table  string
	Row    string // the row's whole primary key
	Column string
}

// Vault seals and opens values.
type Vault struct {
	master *Master
	keys   Keys
	now    func() time.Time

	mu    sync.RWMutex
	cache map[parley.OwnerName]*xaes // grows with the owners that have sealed
}

// New makes a vault over a master key and the data keys it wraps.
func New(master *Master, keys Keys, now func() time.Time) *Vault {
	return &Vault{master: master, keys: keys, now: now, cache: map[parley.OwnerName]*xaes{}}
}

// Derive gives a key of 32 bytes for a purpose that is not sealing, the same as
// long as the master key is.
func (v *Vault) Derive(purpose string) []byte {
	key := v.master.derive("parley purpose key: " + purpose)
	return key[:]
}

// A sealed value is: format (1 byte), nonce, ciphertext, tag.
const (
	format    = 1
	headSize  = 1 + nonceSize
	minSealed = headSize + tagSize
)

// Seal encrypts plaintext for the owner, to rest at p. The owner's data key is
// made at its first use. Errors: those of Keys.
func (v *Vault) Seal(ctx context.Context, owner parley.OwnerName, p Place, plaintext []byte) ([]byte, error) {
	x, err := v.dataKey(ctx, owner, true)
	if err != nil {
		return nil, err
	}
	sealed := make([]byte, headSize, minSealed+len(plaintext))
	sealed[0] = format
	if _, err := rand.Read(sealed[1:]); err != nil {
		return nil, parley.E("vault.seal", parley.Internal, parley.Subject(owner), "no randomness to seal with", err)
	}
	return x.seal(sealed, sealed[1:headSize], plaintext, aad(owner, p)), nil
}

// Open decrypts what Seal gave for the same owner and place. A value that was
// changed, moved or sealed under another key is a parley.Internal error.
func (v *Vault) Open(ctx context.Context, owner parley.OwnerName, p Place, sealed []byte) ([]byte, error) {
	const op parley.Op = "vault.open"
	subject := parley.Subject(p.Table + "." + p.Column)
	if len(sealed) < minSealed || sealed[0] != format {
		return nil, parley.E(op, parley.Internal, subject, "a sealed value is damaged", nil)
	}
	x, err := v.dataKey(ctx, owner, false)
	if err != nil {
		return nil, err
	}
	plaintext, err := x.open(sealed[1:headSize], sealed[headSize:], aad(owner, p))
	if err != nil {
		return nil, parley.E(op, parley.Internal, subject, "a sealed value does not open: it was changed, moved from another row, or sealed under another key", err)
	}
	return plaintext, nil
}

// aad is what a sealed value is bound to. Every part is preceded by its
// length, so that no two places give the same bytes.
func aad(owner parley.OwnerName, p Place) []byte {
	parts := [...]string{"parley sealed value", string(owner), p.Table, p.Row, p.Column}
	b := make([]byte, 0, 160)
	b = append(b, format)
	for _, s := range parts {
		b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	return b
}

// dataKey gives the owner's key, from the cache if it was used before.
func (v *Vault) dataKey(ctx context.Context, owner parley.OwnerName, create bool) (*xaes, error) {
	v.mu.RLock()
	x := v.cache[owner]
	v.mu.RUnlock()
	if x != nil {
		return x, nil
	}
	k, err := v.keys.DataKey(ctx, owner)
	if create && parley.KindOf(err) == parley.NotFound {
		err = v.create(ctx, owner)
		// Whoever came first: all use what is stored.
		if err == nil || parley.KindOf(err) == parley.Conflict {
			k, err = v.keys.DataKey(ctx, owner)
		}
	}
	if err != nil {
		return nil, err
	}
	key, err := v.unwrap(k)
	if err != nil {
		return nil, err
	}
	x = newXAES(key)
	v.mu.Lock()
	v.cache[owner] = x
	v.mu.Unlock()
	return x, nil
}

func (v *Vault) create(ctx context.Context, owner parley.OwnerName) error {
	var key [keySize]byte
	nonce := make([]byte, nonceSize)
	if _, err := rand.Read(key[:]); err != nil {
		return parley.E("vault.create", parley.Internal, parley.Subject(owner), "no randomness for a data key", err)
	}
	if _, err := rand.Read(nonce); err != nil {
		return parley.E("vault.create", parley.Internal, parley.Subject(owner), "no randomness for a data key", err)
	}
	return v.keys.CreateDataKey(ctx, &DataKey{
		Owner: owner, Master: v.master.ID(), CreatedAt: v.now(),
		Wrapped: v.wrapping(owner).seal(nonce, nonce, key[:], wrapAAD(owner)),
	})
}

func (v *Vault) unwrap(k *DataKey) (key [keySize]byte, err error) {
	const op parley.Op = "vault.unwrap"
	if id := v.master.ID(); k.Master != id {
		return key, parley.E(op, parley.Internal, parley.Subject(k.Owner), "the data key is wrapped under master key "+k.Master+", the mesh has "+id, nil)
	}
	if len(k.Wrapped) != nonceSize+keySize+tagSize {
		return key, parley.E(op, parley.Internal, parley.Subject(k.Owner), "the data key is damaged", nil)
	}
	b, err := v.wrapping(k.Owner).open(k.Wrapped[:nonceSize], k.Wrapped[nonceSize:], wrapAAD(k.Owner))
	if err != nil {
		return key, parley.E(op, parley.Internal, parley.Subject(k.Owner), "the data key does not open under the master key", err)
	}
	return [keySize]byte(b), nil
}

func (v *Vault) wrapping(owner parley.OwnerName) *xaes {
	return newXAES(v.master.derive("parley/vault/v1/wrap/" + string(owner)))
}

func wrapAAD(owner parley.OwnerName) []byte { return []byte("parley data key v1/" + string(owner)) }
