package keyring

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mesh/parley/internal/parley"
)

// Purpose is what a key signs. A key serves one purpose only.
type Purpose string

// The purposes.
const (
	Card    Purpose = "card"    // agent cards that the mesh serves
	Push    Purpose = "push"    // tokens that come with a push
	Webhook Purpose = "webhook" // Standard Webhooks signatures (v1a)
)

// Purposes lists them all.
var Purposes = []Purpose{Card, Push, Webhook}

// algorithms are what each purpose signs with, by their names in JOSE.
var algorithms = map[Purpose]jose.SignatureAlgorithm{Card: jose.ES256, Push: jose.ES256, Webhook: jose.EdDSA}

// Algorithm is what the purpose signs with, by its name in JOSE: ES256 or EdDSA
// (Ed25519). It is empty for what is no purpose.
func (p Purpose) Algorithm() string { return string(algorithms[p]) }

// Key is a key in force. Private is an *ecdsa.PrivateKey on P-256 for ES256 and
// an ed25519.PrivateKey for EdDSA.
type Key struct {
	ID        string // thumbprint, RFC 7638; the kid
	Purpose   Purpose
	Algorithm string // as Purpose.Algorithm
	Private   crypto.Signer
}

// Row is a key as it rests.
type Row struct {
	ID         string
	Purpose    Purpose
	Generation int64  // from 1, without gaps within a purpose
	Public     []byte // a JWK
	Private    []byte // PKCS #8; empty where the key signs nothing any more. The store seals it
	CreatedAt  time.Time
	ActiveAt   time.Time // from then on it signs
	RevokedAt  time.Time // zero: it is not
}

// State is where a key is in its life.
type State string

// The states, in their order.
const (
	Next    State = "next"    // published, and signs nothing yet
	Current State = "current" // signs
	Retired State = "retired" // published, and signs nothing any more
	Expired State = "expired" // not published any more
	Revoked State = "revoked" // taken back: what it signed is no longer to be trusted
)

// Info is what may be told of a key.
type Info struct {
	ID        string
	Purpose   Purpose
	Algorithm string
	State     State
	CreatedAt time.Time
	ActiveAt  time.Time
	// Until is when the key leaves the published set; zero where that is not
	// known yet.
	Until time.Time
}

// generate makes a key of the purpose.
func generate(p Purpose) (*Row, error) {
	const op parley.Op = "keyring.generate"
	var private crypto.Signer
	var err error
	switch algorithms[p] {
	case jose.ES256:
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case jose.EdDSA:
		_, private, err = ed25519.GenerateKey(rand.Reader)
	default:
		return nil, parley.E(op, parley.Invalid, parley.Subject(p), "there are no keys for "+string(p)+": name one of card, push and webhook", nil)
	}
	if err != nil {
		return nil, parley.E(op, parley.Internal, parley.Subject(p), "no randomness for a key", err)
	}
	row := &Row{Purpose: p}
	jwk := jose.JSONWebKey{Key: private.Public(), Algorithm: p.Algorithm(), Use: "sig"}
	print, err := jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, parley.E(op, parley.Internal, parley.Subject(p), "the key has no thumbprint", err)
	}
	jwk.KeyID = base64.RawURLEncoding.EncodeToString(print)
	row.ID = jwk.KeyID
	if row.Public, err = jwk.MarshalJSON(); err != nil {
		return nil, parley.E(op, parley.Internal, parley.Subject(p), "the key cannot be written", err)
	}
	if row.Private, err = x509.MarshalPKCS8PrivateKey(private); err != nil {
		return nil, parley.E(op, parley.Internal, parley.Subject(p), "the key cannot be written", err)
	}
	return row, nil
}

// open reads the private half.
func (r *Row) open() (*Key, error) {
	private, err := x509.ParsePKCS8PrivateKey(r.Private)
	if err != nil {
		return nil, parley.E("keyring.open", parley.Internal, parley.Subject(r.ID), "a key of the mesh is damaged: rotate it with 'parley keyring rotate "+string(r.Purpose)+"'", err)
	}
	signer, ok := private.(crypto.Signer)
	if !ok {
		return nil, parley.E("keyring.open", parley.Internal, parley.Subject(r.ID), "a key of the mesh does not sign", nil)
	}
	return &Key{ID: r.ID, Purpose: r.Purpose, Algorithm: r.Purpose.Algorithm(), Private: signer}, nil
}
