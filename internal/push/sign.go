package push

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// Keys give the mesh's keys for what it sends.
type Keys interface {
	// PushKey is the ES256 key of tokens.
	PushKey(ctx context.Context) (Key, error)
	// WebhookKey is the Ed25519 key of Standard Webhooks signatures.
	WebhookKey(ctx context.Context) (Key, error)
}

// Key signs; its id stands in the mesh's key set.
type Key struct {
	ID      string
	Private crypto.Signer
}

// Headers of a delivery that no standard names.
const (
	HeaderToken = "Parley-Push-Token" // the mesh's, where the subscriber owns Authorization
	// The subscriber's own token. A2A 1.0 names no header for it; receivers look
	// for one or the other.
	headerOwnToken    = "A2A-Notification-Token"
	headerOwnTokenOld = "X-A2A-Notification-Token"
)

// TokenLife is how long a token of the mesh is valid. Every attempt has its own.
const TokenLife = 5 * time.Minute

// headers are those that prove where a delivery comes from: the mesh's token,
// the subscriber's own credentials and token, and the signatures of Standard
// Webhooks. webhook-id is the event's and stays the same over all attempts; the
// token's jti is the attempt's.
func (d *Dispatcher) headers(ctx context.Context, s *Subscription, e Event, body []byte) (map[string]string, error) {
	now := d.opts.Now()
	token, err := d.token(ctx, s, body, now)
	if err != nil {
		return nil, err
	}
	h := map[string]string{}
	if s.AuthScheme != "" {
		h["Authorization"] = strings.TrimSpace(s.AuthScheme + " " + s.AuthCredentials)
		h[HeaderToken] = token
	} else {
		h["Authorization"] = "Bearer " + token
	}
	if s.Token != "" {
		h[headerOwnToken], h[headerOwnTokenOld] = s.Token, s.Token
	}
	key, err := d.opts.Keys.WebhookKey(ctx)
	if err != nil {
		return nil, fmt.Errorf("key for webhook signatures: %w", err)
	}
	signed := Signed{ID: letterID(s.ID, e.Seq), Timestamp: strconv.FormatInt(now.Unix(), 10)}
	signatures, err := signed.sign(key, s.Token, body)
	if err != nil {
		return nil, err
	}
	h["Webhook-Id"], h["Webhook-Timestamp"], h["Webhook-Signature"] = signed.ID, signed.Timestamp, signatures
	return h, nil
}

// Signed is what a signature of Standard Webhooks covers, beside the body.
type Signed struct{ ID, Timestamp string }

// sign gives the header webhook-signature: v1a by the mesh's key, and v1 by the
// subscriber's token where it can be a secret.
func (s Signed) sign(key Key, token string, body []byte) (string, error) {
	content := append([]byte(s.ID+"."+s.Timestamp+"."), body...)
	asymmetric, err := key.Private.Sign(rand.Reader, content, crypto.Hash(0))
	if err != nil {
		return "", fmt.Errorf("sign a webhook: %w", err)
	}
	if _, ok := key.Private.Public().(ed25519.PublicKey); !ok {
		return "", fmt.Errorf("sign a webhook: key %s is %T, not Ed25519", key.ID, key.Private.Public())
	}
	signatures := "v1a," + base64.StdEncoding.EncodeToString(asymmetric)
	if secret := webhookSecret(token); secret != nil {
		mac := hmac.New(sha256.New, secret)
		mac.Write(content)
		signatures = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)) + " " + signatures
	}
	return signatures, nil
}

// minSecret is the shortest secret of Standard Webhooks, in bytes.
const minSecret = 24

// webhookSecret is the secret in a subscriber's token: what whsec_ and base64
// stand for, else the token itself; nil where it is too short to be one.
func webhookSecret(token string) []byte {
	secret := []byte(token)
	if encoded, ok := strings.CutPrefix(token, "whsec_"); ok {
		if decoded, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			secret = decoded
		}
	}
	if len(secret) < minSecret {
		return nil
	}
	return secret
}

// claims are those of a token: RFC 7519, and what binds it to one delivery.
type claims struct {
	Issuer     string `json:"iss"`
	Audience   string `json:"aud"` // the URL as the subscriber gave it
	IssuedAt   int64  `json:"iat"`
	Expires    int64  `json:"exp"`
	ID         string `json:"jti"`
	TaskID     string `json:"taskId"`
	BodySHA256 string `json:"body_sha256"` // hexadecimal, lower case
}

// token is the mesh's proof for one attempt: a JWT, signed with ES256.
func (d *Dispatcher) token(ctx context.Context, s *Subscription, body []byte, now time.Time) (string, error) {
	key, err := d.opts.Keys.PushKey(ctx)
	if err != nil {
		return "", fmt.Errorf("key for push tokens: %w", err)
	}
	sum := sha256.Sum256(body)
	header, err := json.Marshal(map[string]string{"alg": "ES256", "kid": key.ID, "typ": "JWT"})
	if err != nil {
		return "", err
	}
	payload, err := json.Marshal(claims{
		Issuer: d.opts.Issuer, Audience: s.URL, IssuedAt: now.Unix(), Expires: now.Add(TokenLife).Unix(),
		ID: rand.Text(), TaskID: s.Task.ID, BodySHA256: hex.EncodeToString(sum[:]),
	})
	if err != nil {
		return "", err
	}
	signing := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(payload)
	signature, err := signES256(key.Private, []byte(signing))
	if err != nil {
		return "", fmt.Errorf("sign a push token: %w", err)
	}
	return signing + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

// p256Bytes is the size of each half of an ES256 signature (RFC 7518 section 3.4).
const p256Bytes = 32

// signES256 signs as JWS writes it: both numbers with leading zeros, where a
// crypto.Signer gives ASN.1.
func signES256(private crypto.Signer, content []byte) ([]byte, error) {
	digest := sha256.Sum256(content)
	der, err := private.Sign(rand.Reader, digest[:], crypto.SHA256)
	if err != nil {
		return nil, err
	}
	var numbers struct{ R, S *big.Int }
	if rest, err := asn1.Unmarshal(der, &numbers); err != nil || len(rest) > 0 || max(numbers.R.BitLen(), numbers.S.BitLen()) > 8*p256Bytes {
		return nil, fmt.Errorf("a signature of %d bytes is not one of P-256", len(der))
	}
	signature := make([]byte, 2*p256Bytes)
	numbers.R.FillBytes(signature[:p256Bytes])
	numbers.S.FillBytes(signature[p256Bytes:])
	return signature, nil
}
