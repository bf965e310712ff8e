package cardsign

import (
	"context"
	"crypto"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// Limits on what a card's signatures may cost.
const (
	// MaxSignatures is how many signatures a card may have. One that has more is
	// looked at as one whose signatures are wrong.
	MaxSignatures = 16
	// maxHeaderBytes is the longest protected header, encoded.
	maxHeaderBytes = 8 << 10
	// maxSignatureBytes is the longest signature, encoded: RSA with 8192 bits.
	maxSignatureBytes = 1400
	// maxNameBytes is the longest kid and jku.
	maxNameBytes = 2 << 10
)

// algorithms are those that are taken, by name. None is symmetric: a public key
// must never serve as a secret.
var algorithms = []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.ES512, jose.EdDSA, jose.PS256, jose.RS256}

// Hint is what a signature says of its key. It is a stranger's word.
type Hint struct {
	KeyID     string
	JKU       string // empty: it names no key set
	Algorithm string
}

// KeySource finds keys for signatures.
type KeySource interface {
	// Keys gives the keys that may have made a signature with the hint. The error
	// says, for whoever owns the card, why none is to be had.
	Keys(ctx context.Context, h Hint) ([]jose.JSONWebKey, error)
}

// Signature is a signature that holds.
type Signature struct {
	Hint
	Form Form
	// Key is the public key that verified it, and Thumbprint its RFC 7638
	// thumbprint: the name of a key that nobody can choose.
	Key        jose.JSONWebKey
	Thumbprint string
}

// Verdict is what verifying found.
type Verdict struct {
	Count    int         // signatures that the card has
	Valid    []Signature // those that hold
	Problems []string    // of the others, in their order
	// Keyless tells that for all that do not hold no key was found: nobody has said
	// that they are wrong.
	Keyless bool
}

// Signers gives one signature that holds for each key, the one that covers most, in
// the card's order.
func (v *Verdict) Signers() []Signature {
	var all []Signature
	for _, one := range v.Valid {
		i := slices.IndexFunc(all, func(s Signature) bool { return s.Thumbprint == one.Thumbprint })
		switch {
		case i < 0:
			all = append(all, one)
		case slices.Index(Forms, one.Form) < slices.Index(Forms, all[i].Form):
			all[i] = one
		}
	}
	return all
}

// errNoKey is why a signature has not even been tried.
var errNoKey = errors.New("no key")

// Verify checks every signature of a card, as received. The error says what is
// wrong with the card as a whole.
func Verify(ctx context.Context, raw []byte, keys KeySource) (*Verdict, error) {
	payloads := map[Form][]byte{}
	for _, form := range Forms {
		payload, err := Canonical(raw, form)
		if err != nil {
			return nil, err
		}
		payloads[form] = payload
	}
	list, ok := jsonwire.Get(raw, "/signatures")
	if !ok || isNull(list) {
		return &Verdict{}, nil
	}
	if list[0] != '[' {
		return nil, fmt.Errorf("signatures: is no list")
	}
	all := jsonwire.Elements(list)
	v := &Verdict{Count: len(all), Keyless: true}
	if len(all) > MaxSignatures {
		v.Keyless, v.Problems = false, []string{fmt.Sprintf("the card has %d signatures, at most %d are looked at", len(all), MaxSignatures)}
		return v, nil
	}
	for i, one := range all {
		held, err := verifyOne(ctx, one, payloads, keys)
		if err != nil {
			v.Keyless = v.Keyless && errors.Is(err, errNoKey)
			v.Problems = append(v.Problems, fmt.Sprintf("signatures[%d]: %v", i, err))
			continue
		}
		v.Valid = append(v.Valid, *held)
	}
	return v, nil
}

func verifyOne(ctx context.Context, raw jsontext.Value, payloads map[Form][]byte, keys KeySource) (*Signature, error) {
	protected, signature, err := parts(raw)
	if err != nil {
		return nil, err
	}
	hint, err := readHeader(protected)
	if err != nil {
		return nil, err
	}
	candidates, err := keys.Keys(ctx, *hint)
	if err != nil {
		return nil, fmt.Errorf("%w for kid %q: %w", errNoKey, clip(hint.KeyID), err)
	}
	candidates = slices.DeleteFunc(slices.Clone(candidates), func(k jose.JSONWebKey) bool { return !fits(k, hint.Algorithm) })
	if len(candidates) == 0 {
		return nil, fmt.Errorf("%w for kid %q that is one for %s", errNoKey, clip(hint.KeyID), hint.Algorithm)
	}
	for _, form := range Forms {
		compact := protected + ".." + signature
		jws, err := jose.ParseDetached(compact, payloads[form], algorithms)
		if err != nil {
			return nil, errors.New("is no JSON web signature")
		}
		for _, key := range candidates {
			if _, err := jws.Verify(key.Key); err != nil {
				continue
			}
			print, err := Thumbprint(key)
			if err != nil {
				return nil, err
			}
			return &Signature{Hint: *hint, Form: form, Key: key.Public(), Thumbprint: print}, nil
		}
	}
	return nil, fmt.Errorf("does not hold for this card under kid %q", clip(hint.KeyID))
}

// Thumbprint is the RFC 7638 thumbprint of a key, in base64url.
func Thumbprint(key jose.JSONWebKey) (string, error) {
	print, err := key.Thumbprint(crypto.SHA256)
	if err != nil {
		return "", fmt.Errorf("key: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(print), nil
}

// parts takes a signature apart; its unprotected header is nobody's word.
func parts(raw jsontext.Value) (protected, signature string, err error) {
	if len(raw) == 0 || raw[0] != '{' {
		return "", "", errors.New("is no object")
	}
	p, _ := jsonwire.Get(raw, "/protected")
	s, _ := jsonwire.Get(raw, "/signature")
	switch protected, signature = jsonwire.String(p), jsonwire.String(s); {
	case protected == "" || signature == "":
		return "", "", errors.New("lacks protected or signature")
	case len(protected) > maxHeaderBytes || len(signature) > maxSignatureBytes:
		return "", "", errors.New("is too long")
	}
	if _, err := base64.RawURLEncoding.Strict().DecodeString(signature); err != nil {
		return "", "", errors.New("signature is not in base64url without padding")
	}
	return protected, signature, nil
}

// readHeader reads a protected header. What would change how the signature is to
// be understood, or brings a key along, is refused.
func readHeader(protected string) (*Hint, error) {
	text, err := base64.RawURLEncoding.Strict().DecodeString(protected)
	if err != nil {
		return nil, errors.New("protected is not in base64url without padding")
	}
	if e := jsonwire.Valid(text, jsonwire.Limits{MaxBytes: maxHeaderBytes, MaxDepth: 8}); e != nil || len(text) == 0 || text[0] != '{' {
		return nil, errors.New("protected is no JSON object with unique names")
	}
	h := &Hint{}
	kind := ""
	for _, m := range jsonwire.Members(text) {
		switch m.Name {
		case "alg":
			h.Algorithm = jsonwire.String(m.Value)
		case "kid":
			h.KeyID = jsonwire.String(m.Value)
		case "jku":
			if h.JKU = jsonwire.String(m.Value); h.JKU == "" {
				return nil, errors.New("jku is no address")
			}
		case "typ":
			kind = jsonwire.String(m.Value)
			if kind == "" {
				return nil, errors.New("typ is no text")
			}
		case "crit", "b64":
			return nil, fmt.Errorf("asks for the extension %s, which is not known here", m.Name)
		case "jwk", "x5u", "x5c":
			return nil, fmt.Errorf("brings its own key (%s), which proves nothing", m.Name)
		}
	}
	switch {
	case !slices.Contains(algorithms, jose.SignatureAlgorithm(h.Algorithm)):
		return nil, fmt.Errorf("algorithm %q is not taken: sign with ES256", clip(h.Algorithm))
	case h.KeyID == "":
		return nil, errors.New("names no key (kid)")
	case len(h.KeyID) > maxNameBytes || len(h.JKU) > maxNameBytes:
		return nil, errors.New("kid or jku is too long")
	case kind != "" && !strings.EqualFold(kind, typeJOSE) && !strings.EqualFold(kind, "JWT"):
		// JWT is what Python's library writes where a signer names no type.
		return nil, fmt.Errorf("is of type %q, not of a card: write JOSE", clip(kind))
	}
	return h, nil
}

// clip bounds a stranger's text in messages; %q makes it printable.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
