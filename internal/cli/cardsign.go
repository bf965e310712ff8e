package cli

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/cardsign"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// maxSigningKey is the size of the largest file that can be a key or a key set.
const maxSigningKey = cardsign.MaxKeySetBytes

func cardSignCommand(p *program) *cobra.Command {
	var key, kid, jku, out string
	var fresh, add bool
	cmd := &cobra.Command{
		Use: "sign FILE", Short: "Sign an agent's card, for authors of agents",
		Long: `Sign the card in FILE and print it signed, or write it to --out. The mesh is not
asked. Signatures that the card has are replaced, unless --add keeps them, as when
a new key takes over: sign with the old key and the new one for a while.

--key names a private key in PEM, on P-256 (ES256) or Ed25519 (EdDSA). --new-key
makes one there first, on P-256, and beside it FILE.jwks.json with the public half.
Publish that at the agent's own origin, by default at /.well-known/jwks.json, or
where --jku says: whoever verifies the card takes keys from no other place.

Write no empty texts or lists into what A2A requires, and leave out what is false:
the SDKs leave those out when they verify, so the card needs more signatures.`,
		Example: `  parley card sign card.json --key agent.pem --new-key --out signed.json
  parley card sign card.json --key agent.pem --jku https://agent.example.com/keys.json`,
		Args: arguments("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			if key == "" {
				return usagef("--key is missing: name the file of the private key, and with --new-key it is made")
			}
			private, err := signingKey(key, fresh)
			if err != nil {
				return err
			}
			if fresh {
				p.remark("made the private key %s and its public half %s.jwks.json: keep the one, publish the other", key, key)
			}
			signed, n, err := signCard(args[0], private, kid, jku, add)
			if err != nil {
				return err
			}
			if n > 1 {
				p.remark("the card has %d signatures of the key: readers differ in what they take as signed, see docs/signatures.md", n)
			}
			if out == "" {
				return p.print("%s\n", signed)
			}
			if err := os.WriteFile(out, append(signed, '\n'), 0o644); err != nil { //nolint:gosec // a card is public
				return parley.E("cli.card", parley.Invalid, parley.Subject(out), "the card cannot be written: "+err.Error(), err)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&key, "key", "", "file of the private key, in PEM")
	flags.BoolVar(&fresh, "new-key", false, "make the key at --key first; a file that is there stays")
	flags.StringVar(&kid, "kid", "", "id of the key in its set (default: its RFC 7638 thumbprint)")
	flags.StringVar(&jku, "jku", "", "address of the key set, at the agent's own origin (default: none, and /.well-known/jwks.json is looked at)")
	flags.BoolVar(&add, "add", false, "keep the signatures that the card has")
	flags.StringVar(&out, "out", "", "file for the signed card (default: it is printed)")
	return cmd
}

// signCard signs the card in a file and says how many signatures that took.
func signCard(file string, private crypto.Signer, kid, jku string, add bool) (_ []byte, signatures int, err error) {
	raw, err := readCardFile(file)
	if err != nil {
		return nil, 0, err
	}
	if !add {
		if raw, err = jsonwire.Delete(raw, "/signatures"); err != nil {
			return nil, 0, badCard(file, err.Error())
		}
	}
	before := countSignatures(raw)
	jwk := jose.JSONWebKey{Key: private.Public()}
	if kid == "" {
		if kid, err = cardsign.Thumbprint(jwk); err != nil {
			return nil, 0, err
		}
	}
	signer := cardsign.Signer{KeyID: kid, JKU: jku, Algorithm: algorithmOf(private), Private: private}
	signed, err := signer.Sign(raw)
	if err != nil {
		return nil, 0, badCard(file, err.Error())
	}
	return signed, countSignatures(signed) - before, nil
}

func countSignatures(raw []byte) int {
	list, _ := jsonwire.Get(raw, "/signatures")
	return len(jsonwire.Elements(list))
}

func algorithmOf(key crypto.Signer) string {
	if _, ok := key.(ed25519.PrivateKey); ok {
		return string(jose.EdDSA)
	}
	return string(jose.ES256)
}

// readCardFile reads a card that can be registered.
func readCardFile(file string) ([]byte, error) {
	raw, err := readFile(file, a2a.MaxCardBytes)
	if err != nil {
		return nil, fileError(file, err)
	}
	_, problems := a2a.ParseCard(raw)
	for _, problem := range problems {
		if problem.Level == a2a.LevelError {
			return nil, badCard(file, problem.String())
		}
	}
	return raw, nil
}

func badCard(file, why string) error {
	return parley.E("cli.card", parley.Invalid, parley.Subject(file), "the card in "+file+" cannot be used: "+why, nil)
}

func fileError(file string, err error) error {
	kind := parley.Invalid
	if errors.Is(err, os.ErrNotExist) {
		kind = parley.NotFound
	}
	return parley.E("cli.card", kind, parley.Subject(file), file+" cannot be read: "+err.Error(), err)
}

// signingKey reads a private key, or makes one.
func signingKey(file string, fresh bool) (crypto.Signer, error) {
	if fresh {
		return newSigningKey(file)
	}
	raw, err := readFile(file, maxSigningKey)
	if err != nil {
		return nil, fileError(file, err)
	}
	wrong := func(why string) error {
		return parley.E("cli.card", parley.Invalid, parley.Subject(file), "the key in "+file+" cannot be used: "+why, nil)
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, wrong("it is not in PEM; --new-key makes one")
	}
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		if private, err = x509.ParseECPrivateKey(block.Bytes); err != nil {
			return nil, wrong("it is no unencrypted private key")
		}
	}
	switch key := private.(type) {
	case ed25519.PrivateKey:
		return key, nil
	case *ecdsa.PrivateKey:
		if key.Curve == elliptic.P256() {
			return key, nil
		}
	}
	return nil, wrong("use one on P-256 or Ed25519; --new-key makes one")
}

// newSigningKey makes a key and the set with its public half beside it. It
// replaces no file.
func newSigningKey(file string) (crypto.Signer, error) {
	failed := func(at string, err error) error {
		return parley.E("cli.card", parley.Invalid, parley.Subject(at), at+" cannot be made: "+err.Error(), err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, failed(file, err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, failed(file, err)
	}
	jwk := jose.JSONWebKey{Key: key.Public(), Algorithm: string(jose.ES256), Use: "sig"}
	if jwk.KeyID, err = cardsign.Thumbprint(jwk); err != nil {
		return nil, failed(file, err)
	}
	set, err := json.MarshalIndent(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{jwk}}, "", "  ")
	if err != nil {
		return nil, failed(file, err)
	}
	for _, one := range []struct {
		path string
		text []byte
		mode os.FileMode
	}{
		{file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600},
		{file + ".jwks.json", append(set, '\n'), 0o644},
	} {
		f, err := os.OpenFile(one.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, one.mode)
		if err != nil {
			return nil, failed(one.path, err)
		}
		_, err = f.Write(one.text)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, failed(one.path, err)
		}
	}
	return key, nil
}

// verified is what came of verifying a card.
type verified struct {
	Card      string                 `json:"card"`
	Signature *control.CardSignature `json:"signature"`
}

func cardVerifyCommand(p *program) *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use: "verify FILE|URL", Short: "Say whether a card's signature holds, and by which key",
		Long: `Verify the signatures of a card. What is no file is an address, which the mesh
fetches; the keys are then those that the card names, if they are at its own origin
or at one of agents.key_providers. --key names a key set, a public key as JWK, or a
key in PEM to verify with instead; a file needs it, since it has no origin.

It ends with status 0 where a signature holds, and with 5 where none does.`,
		Example: `  parley card verify https://agent.example.com/
  parley card verify signed.json --key agent.pem.jwks.json`,
		Args: arguments("FILE|URL"),
		RunE: func(c *cobra.Command, args []string) error {
			if _, err := os.Stat(args[0]); err == nil || !strings.ContainsAny(args[0], ".:/") {
				if key == "" {
					return usagef("--key is missing: a file has no origin whose keys would count; name the key set or the public key")
				}
				raw, err := readCardFile(args[0])
				if err != nil {
					return err
				}
				return p.verifyWith(c.Context(), args[0], raw, key)
			}
			return p.managing(func(ctx context.Context, c *control.Client, args []string) error {
				report, err := c.CheckCard(ctx, args[0])
				switch {
				case err != nil:
					return err
				case report.Card == nil:
					return cardless(args[0], report)
				case key != "":
					return p.verifyWith(ctx, report.CardURL, report.Card, key)
				}
				return p.showVerified(verified{report.CardURL, report.Signature})
			})(c, args)
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "file of the key set or key to verify with")
	return cmd
}

// cardless is why no card was found at an address.
func cardless(address string, r control.Report) error {
	var why []string
	for _, t := range r.Tried {
		why = append(why, t.URL+": "+t.Result)
	}
	for _, problem := range r.Problems {
		if problem.Level == registry.Refusal {
			why = append(why, problem.String())
		}
	}
	if len(why) == 0 {
		why = []string{"nothing is looked for there: write an address such as https://agent.example.com"}
	}
	return parley.E("cli.card", parley.Invalid, parley.Subject(address), "no card was found: "+strings.Join(why, "; "), nil)
}

// verifyWith verifies a card with the keys in a file.
func (p *program) verifyWith(ctx context.Context, name string, raw []byte, file string) error {
	keys, err := verifyingKeys(file)
	if err != nil {
		return err
	}
	v, err := cardsign.Verify(ctx, raw, keys)
	if err != nil {
		return badCard(name, err.Error())
	}
	found := &control.CardSignature{State: registry.Wrong}
	switch {
	case len(v.Valid) > 0:
		found.State = registry.Verified
	case v.Count == 0:
		found.State = registry.Unsigned
	case v.Keyless:
		found.State = registry.Unverified
	}
	for _, one := range v.Signers() {
		found.Keys = append(found.Keys, registry.CardKey{
			KeyID: one.KeyID, Thumbprint: one.Thumbprint, Algorithm: one.Algorithm, JKU: one.JKU, Form: string(one.Form),
		})
	}
	if len(v.Valid) == 0 {
		found.Problem = strings.Join(v.Problems, "; ")
	}
	return p.showVerified(verified{name, found})
}

// anyID is one key, whatever signatures call it.
type anyID struct{ key jose.JSONWebKey }

// Keys implements cardsign.KeySource.
func (k anyID) Keys(context.Context, cardsign.Hint) ([]jose.JSONWebKey, error) {
	return []jose.JSONWebKey{k.key}, nil
}

// verifyingKeys reads a key set, or one key, private ones too.
func verifyingKeys(file string) (cardsign.KeySource, error) {
	raw, err := readFile(file, maxSigningKey)
	if err != nil {
		return nil, fileError(file, err)
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		set, err := cardsign.ParseKeySet(raw, time.Now())
		if err == nil && len(set) == 0 {
			err = errors.New("it has no public key for signatures")
		}
		if err != nil {
			return nil, parley.E("cli.card", parley.Invalid, parley.Subject(file), "the keys in "+file+" cannot be used: "+err.Error(), err)
		}
		return set, nil
	}
	if public, err := x509.ParsePKIXPublicKey(block.Bytes); err == nil {
		return anyID{jose.JSONWebKey{Key: public}}, nil
	}
	private, err := signingKey(file, false)
	if err != nil {
		return nil, err
	}
	return anyID{jose.JSONWebKey{Key: private.Public()}}, nil
}

func (p *program) showVerified(v verified) error {
	if err := p.show(v, func(f *facts) {
		f.add("card", v.Card)
		f.add("signature", signatureText(v.Signature))
	}); err != nil {
		return err
	}
	if v.Signature != nil && v.Signature.State == registry.Verified {
		return nil
	}
	return parley.E("cli.card", parley.Invalid, parley.Subject(v.Card), "no signature of this card holds", nil)
}

// signatureText is what is known of a card's signatures in a line.
func signatureText(s *control.CardSignature) string {
	if s == nil {
		return ""
	}
	text := string(s.State)
	for i, k := range s.Keys {
		if i > 0 {
			text += " and"
		}
		text += fmt.Sprintf(" by key %s (%s, form %s)", k.KeyID, k.Algorithm, k.Form)
	}
	if s.Since != nil {
		text += ", since " + s.Since.Local().Format(time.DateTime)
	}
	if s.Problem != "" {
		text += ": " + s.Problem
	}
	return text
}
