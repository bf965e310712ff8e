package cardsign

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"fmt"
	"math/big"
	"slices"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// Signer signs cards with one key.
type Signer struct {
	KeyID     string // required
	JKU       string // address of the key set with the public half; empty for none
	Algorithm string // ES256 or EdDSA
	Private   crypto.Signer
}

// header is a protected header, in the order of its members as they are signed.
type header struct {
	Algorithm string `json:"alg"`
	KeyID     string `json:"kid"`
	JKU       string `json:"jku,omitzero"`
	Type      string `json:"typ,omitzero"`
}

// typeJOSE is the typ that the specification asks for.
const typeJOSE = "JOSE"

// Sign gives the card with signatures of the key added: one, or one for each form
// where what the SDKs verify differs from what the specification says. The rest
// of the card's bytes stays as it is; signatures stand at its end. The same card and key give the same bytes.
func (s *Signer) Sign(raw []byte) ([]byte, error) {
	protected, err := jsonwire.Marshal(header{Algorithm: s.Algorithm, KeyID: s.KeyID, JKU: s.JKU, Type: typeJOSE})
	if err != nil {
		return nil, fmt.Errorf("sign card: %w", err)
	}
	var list []a2a.AgentCardSignature
	var before [][]byte
	for _, form := range []Form{Model, Schemeless, Presence} { // a verifier takes the first that fits
		payload, err := Canonical(raw, form)
		if err != nil {
			return nil, fmt.Errorf("sign card: %w", err)
		}
		if slices.ContainsFunc(before, func(b []byte) bool { return bytes.Equal(b, payload) }) {
			continue
		}
		before = append(before, payload)
		one := a2a.AgentCardSignature{Protected: base64.RawURLEncoding.EncodeToString(protected)}
		signature, err := s.sign(signingInput(one.Protected, payload))
		if err != nil {
			return nil, fmt.Errorf("sign card: %w", err)
		}
		one.Signature = base64.RawURLEncoding.EncodeToString(signature)
		list = append(list, one)
	}
	return appendSignatures(raw, list)
}

// signingInput is what a signature is over (RFC 7515, section 5.1).
func signingInput(protected string, payload []byte) []byte {
	return []byte(protected + "." + base64.RawURLEncoding.EncodeToString(payload))
}

// appendSignatures adds to the card's signatures.
func appendSignatures(raw []byte, list []a2a.AgentCardSignature) ([]byte, error) {
	all := []byte{'['}
	if there, ok := jsonwire.Get(raw, "/signatures"); ok {
		for _, e := range jsonwire.Elements(there) {
			all = append(append(all, e...), ',')
		}
	}
	for i, one := range list {
		if i > 0 {
			all = append(all, ',')
		}
		member, err := jsonwire.Marshal(one)
		if err != nil {
			return nil, fmt.Errorf("sign card: %w", err)
		}
		all = append(all, member...)
	}
	rest, err := jsonwire.Delete(raw, "/signatures")
	if err != nil {
		return nil, fmt.Errorf("sign card: %w", err)
	}
	rest = bytes.TrimSpace(rest)
	signed := append([]byte(nil), rest[:len(rest)-1]...)
	if len(bytes.TrimSpace(signed)) > 1 {
		signed = append(signed, ',')
	}
	signed = append(append(append(signed, `"signatures":`...), all...), ']', '}')
	return signed, nil
}

// sign makes the signature of a JWS. It needs no randomness (RFC 6979), so that
// all replicas serve the same bytes of one card.
func (s *Signer) sign(input []byte) ([]byte, error) {
	switch key := s.Private.(type) {
	case ed25519.PrivateKey:
		if s.Algorithm == "EdDSA" {
			return ed25519.Sign(key, input), nil
		}
	case *ecdsa.PrivateKey:
		if s.Algorithm != "ES256" || key.Curve != elliptic.P256() {
			break
		}
		digest := sha256.Sum256(input)
		der, err := key.Sign(nil, digest[:], crypto.SHA256)
		if err != nil {
			return nil, err
		}
		var parts struct{ R, S *big.Int }
		if rest, err := asn1.Unmarshal(der, &parts); err != nil || len(rest) > 0 {
			return nil, fmt.Errorf("the key gives no ECDSA signature: %w", err)
		}
		signature := make([]byte, 64)
		parts.R.FillBytes(signature[:32])
		parts.S.FillBytes(signature[32:])
		return signature, nil
	}
	return nil, fmt.Errorf("a key of type %T does not sign by %q: use P-256 with ES256, or Ed25519 with EdDSA", s.Private, s.Algorithm)
}
