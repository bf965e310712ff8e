package webhook

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Headers of a delivery.
const (
	HeaderToken     = "Parley-Push-Token"      // the mesh's token, where Authorization is the subscriber's
	HeaderOwnToken  = "A2A-Notification-Token" // the subscriber's token
	HeaderID        = "Webhook-Id"             // the event's id
	HeaderTimestamp = "Webhook-Timestamp"      // seconds since 1970
	HeaderSignature = "Webhook-Signature"      // v1a: Ed25519 by the mesh; v1: HMAC-SHA256 by the subscriber's token
)

// Defaults of Config.
const (
	DefaultMaxBody = 4 << 20 // bytes
	DefaultSkew    = time.Minute
)

// MaxTokenLife is the longest life of a token that is taken, so that a replay
// cache need not remember longer.
const MaxTokenLife = 10 * time.Minute

// maxToken is the longest token that is read, in bytes.
const maxToken = 8 << 10

// Config says whose deliveries are taken, and for whom.
type Config struct {
	// Issuer is the mesh: its public URL, as its cards and tokens name it. Required.
	Issuer string
	// Audience is the URL that was given to the mesh for pushes, exactly as it was
	// given. Required: a delivery to somebody else must not pass as one to you.
	Audience string
	// Token is what was given to the mesh as the config's token. Where it is set,
	// every delivery must carry it.
	Token string
	// Expect reports whether pushes of a task are expected. Nil: of any.
	Expect func(taskID string) bool

	// Refused is told by a Handler of every delivery that it does not take, and why.
	// Nil: nobody is.
	Refused func(r *http.Request, err error)

	// KeysURL is where the mesh publishes its keys; empty: /.well-known/jwks.json
	// at Issuer. It must be https, but for loopback addresses.
	KeysURL string
	// Client fetches the keys; nil: one that takes 10 s at most. Redirects are not
	// followed either way.
	Client *http.Client
	// Replays remembers used tokens; nil: in memory, for one process. Receivers of
	// several processes share one.
	Replays ReplayCache
	// MaxBody is the largest body that Verify reads, in bytes; 0: DefaultMaxBody.
	MaxBody int64
	// Skew is how far clocks may be apart; 0: DefaultSkew.
	Skew time.Duration
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Delivery is a verified push.
type Delivery struct {
	ID     string // of the event; the same when it is delivered again
	TaskID string
	// Body is the event: a StreamResponse of A2A 1.0 as JSON, or for subscribers
	// that speak 0.3 a Task. Its bytes are those that were signed.
	Body []byte
	Sent time.Time // when the mesh made this attempt
}

// Errors that Verify gives, wrapped in the reason. Answer ErrUnavailable with a
// status of 5xx, so that the delivery comes again, and the others with 4xx.
var (
	ErrRefused     = errors.New("webhook: not a delivery of the mesh")
	ErrReplay      = errors.New("webhook: the token was used before")
	ErrTooLarge    = errors.New("webhook: the body is too large")
	ErrUnavailable = errors.New("webhook: cannot be verified now")
)

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrRefused, fmt.Errorf(format, args...))
}

// Verifier verifies deliveries.
type Verifier struct {
	config Config
	keys   *keySet
}

// New makes a Verifier. It fetches nothing yet.
func New(c Config) (*Verifier, error) {
	for name, value := range map[string]string{"Issuer": c.Issuer, "Audience": c.Audience} {
		if u, err := url.Parse(value); err != nil || u.Host == "" {
			return nil, fmt.Errorf("webhook: Config.%s %q is no URL: write it as https://host/path", name, value)
		}
	}
	if c.KeysURL == "" {
		c.KeysURL = strings.TrimSuffix(c.Issuer, "/") + "/.well-known/jwks.json"
	}
	if err := checkKeysURL(c.KeysURL); err != nil {
		return nil, err
	}
	if c.MaxBody <= 0 {
		c.MaxBody = DefaultMaxBody
	}
	if c.Skew <= 0 {
		c.Skew = DefaultSkew
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Replays == nil {
		c.Replays = NewMemory(0, c.Now)
	}
	return &Verifier{config: c, keys: newKeySet(c.KeysURL, c.Client, c.Now)}, nil
}

// Verify reads a request's body and verifies the delivery.
func (v *Verifier) Verify(r *http.Request) (*Delivery, error) {
	if r.ContentLength > v.config.MaxBody {
		return nil, ErrTooLarge
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, v.config.MaxBody+1))
	if err != nil {
		return nil, refused("its body broke off: %w", err)
	}
	if int64(len(body)) > v.config.MaxBody {
		return nil, ErrTooLarge
	}
	return v.VerifyBody(r.Context(), r.Header, body)
}

// VerifyBody verifies a delivery whose body has been read. Its token counts as
// used afterwards.
func (v *Verifier) VerifyBody(ctx context.Context, header http.Header, body []byte) (*Delivery, error) {
	if err := v.checkOwnToken(header); err != nil {
		return nil, err
	}
	token, err := tokenOf(header)
	if err != nil {
		return nil, err
	}
	claims, err := v.open(ctx, token)
	if err != nil {
		return nil, err
	}
	if err := v.check(claims, body); err != nil {
		return nil, err
	}
	id, err := v.checkSignature(ctx, header, body)
	if err != nil {
		return nil, err
	}
	first, err := v.config.Replays.Use(ctx, claims.ID, claims.Expires.Time().Add(v.config.Skew))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	case !first:
		return nil, ErrReplay
	}
	return &Delivery{ID: id, TaskID: claims.TaskID, Body: body, Sent: claims.IssuedAt.Time()}, nil
}

// checkOwnToken compares the subscriber's token, in constant time.
func (v *Verifier) checkOwnToken(header http.Header) error {
	if v.config.Token == "" {
		return nil
	}
	got := header.Get(HeaderOwnToken)
	if got == "" {
		got = header.Get("X-" + HeaderOwnToken)
	}
	if subtle.ConstantTimeCompare([]byte(got), []byte(v.config.Token)) != 1 {
		return refused("it does not carry the token of its config")
	}
	return nil
}

// tokenOf finds the mesh's token: in its own header, else as the bearer.
func tokenOf(header http.Header) (string, error) {
	given := header.Values(HeaderToken)
	if len(given) == 0 {
		for _, value := range header.Values("Authorization") {
			scheme, token, _ := strings.Cut(value, " ")
			if strings.EqualFold(scheme, "Bearer") {
				given = append(given, strings.TrimSpace(token))
			}
		}
	}
	switch {
	case len(given) == 0:
		return "", refused("it carries no token: neither %s nor a bearer token in Authorization", HeaderToken)
	case len(given) > 1:
		return "", refused("it carries %d tokens", len(given))
	case len(given[0]) > maxToken:
		return "", refused("its token is longer than %d bytes", maxToken)
	}
	return given[0], nil
}

// claims are what a token says.
type claims struct {
	Issuer     string           `json:"iss"`
	Audience   string           `json:"aud"`
	IssuedAt   *jwt.NumericDate `json:"iat"`
	Expires    *jwt.NumericDate `json:"exp"`
	ID         string           `json:"jti"`
	TaskID     string           `json:"taskId"`
	BodySHA256 string           `json:"body_sha256"`
}

// open checks the signature of a token. Only ES256 is taken, whatever the token
// says of itself.
func (v *Verifier) open(ctx context.Context, token string) (*claims, error) {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil || len(parsed.Headers) != 1 {
		return nil, refused("its token is no JWT signed with ES256")
	}
	key, err := v.keys.find(ctx, parsed.Headers[0].KeyID)
	if err != nil {
		return nil, err
	}
	var c claims
	if err := parsed.Claims(key, &c); err != nil {
		return nil, refused("its token is not signed by the mesh")
	}
	return &c, nil
}

// check compares what a token says with what is expected, and with the body.
func (v *Verifier) check(c *claims, body []byte) error {
	now, skew := v.config.Now(), v.config.Skew
	sum := sha256.Sum256(body)
	switch {
	case c.Issuer != v.config.Issuer:
		return refused("its issuer is %q, not %q", c.Issuer, v.config.Issuer)
	case c.Audience != v.config.Audience:
		return refused("it is meant for %q, not for %q", c.Audience, v.config.Audience)
	case c.IssuedAt == nil || c.Expires == nil || c.ID == "":
		return refused("its token lacks iat, exp or jti")
	case c.Expires.Time().Sub(c.IssuedAt.Time()) > MaxTokenLife:
		return refused("its token is valid for longer than %s", MaxTokenLife)
	case now.Before(c.IssuedAt.Time().Add(-skew)):
		return refused("its token is of the future: compare the clocks")
	case !now.Before(c.Expires.Time().Add(skew)):
		return refused("its token has expired")
	case subtle.ConstantTimeCompare([]byte(c.BodySHA256), []byte(hex.EncodeToString(sum[:]))) != 1:
		return refused("its token is for another body")
	case c.TaskID == "":
		return refused("its token names no task")
	case v.config.Expect != nil && !v.config.Expect(c.TaskID):
		return refused("no push of task %q is expected", c.TaskID)
	}
	return nil
}
