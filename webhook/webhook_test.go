package webhook_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/parley-mesh/parley/webhook"
)

const (
	audience = "https://app.example.com/hooks?to=me"
	event    = `{"task":{"id":"t1"}}`
)

// mesh signs as a mesh does, and publishes its keys.
type mesh struct {
	*httptest.Server
	es      *ecdsa.PrivateKey
	ed      ed25519.PrivateKey
	kid     string
	now     time.Time
	fetches atomic.Int32
	away    atomic.Bool
}

func newMesh(t testing.TB) *mesh {
	t.Helper()
	m := &mesh{kid: "k1", now: time.Now()}
	m.newKeys(t)
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.fetches.Add(1)
		if r.URL.Path != "/.well-known/jwks.json" || m.away.Load() {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
			{Key: m.es.Public(), KeyID: m.kid, Use: "sig", Algorithm: "ES256"},
			{Key: m.ed.Public(), KeyID: "w1", Use: "sig", Algorithm: "EdDSA"},
			{Key: []byte("a secret key, which nobody publishes"), KeyID: "oct"},
		}})
	}))
	t.Cleanup(m.Close)
	return m
}

func (m *mesh) newKeys(t testing.TB) {
	t.Helper()
	var err error
	if m.es, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	if _, m.ed, err = ed25519.GenerateKey(rand.Reader); err != nil {
		t.Fatal(err)
	}
}

func (m *mesh) clock() time.Time { return m.now }

func (m *mesh) verifier(t testing.TB, change ...func(*webhook.Config)) *webhook.Verifier {
	t.Helper()
	c := webhook.Config{Issuer: m.URL, Audience: audience, Now: m.clock}
	for _, f := range change {
		f(&c)
	}
	v, err := webhook.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// delivery is what one request says of itself.
type delivery struct {
	claims   map[string]any
	alg      jose.SignatureAlgorithm
	key      any
	kid      string
	id       string
	stamp    time.Time
	body     string // as it arrives
	signed   string // as it was signed
	ownToken string
	header   string // that the token goes in; empty: Authorization
}

func (m *mesh) delivery() *delivery {
	sum := sha256.Sum256([]byte(event))
	return &delivery{
		alg: jose.ES256, key: m.es, kid: m.kid, id: "s-1", stamp: m.now, body: event, signed: event,
		claims: map[string]any{
			"iss": m.URL, "aud": audience, "iat": m.now.Unix(), "exp": m.now.Add(5 * time.Minute).Unix(),
			"jti": rand.Text(), "taskId": "t1", "body_sha256": hex.EncodeToString(sum[:]),
		},
	}
}

func (d *delivery) request(t testing.TB, m *mesh) *http.Request {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: d.alg, Key: d.key}, (&jose.SignerOptions{}).WithHeader("kid", d.kid))
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(d.claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("POST", "/hooks", strings.NewReader(d.body))
	if d.header == "" {
		r.Header.Set("Authorization", "Bearer "+token)
	} else {
		r.Header.Set("Authorization", "Bearer the receiver's own")
		r.Header.Set(d.header, token)
	}
	stamp := fmt.Sprint(d.stamp.Unix())
	r.Header.Set("webhook-id", d.id)
	r.Header.Set("webhook-timestamp", stamp)
	signature := ed25519.Sign(m.ed, []byte(d.id+"."+stamp+"."+d.signed))
	r.Header.Set("webhook-signature", "v1,AAAA v1a,"+base64.StdEncoding.EncodeToString(signature))
	if d.ownToken != "" {
		r.Header.Set("A2A-Notification-Token", d.ownToken)
	}
	return r
}

func TestVerify(t *testing.T) {
	m := newMesh(t)
	foreign, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		change func(*delivery)
		want   error
	}{
		{"as it should be", func(*delivery) {}, nil},
		{"in a header of its own", func(d *delivery) { d.header = webhook.HeaderToken }, nil},
		{"a clock a little ahead", func(d *delivery) { d.claims["iat"] = m.now.Add(30 * time.Second).Unix() }, nil},
		{"another body", func(d *delivery) { d.body = `{"task":{"id":"t2"}}` }, webhook.ErrRefused},
		{"a body signed by v1a alone", func(d *delivery) { d.body, d.signed = "x", "x" }, webhook.ErrRefused},
		{"another key", func(d *delivery) { d.key = foreign }, webhook.ErrRefused},
		{"an unknown key", func(d *delivery) { d.kid = "k9" }, webhook.ErrRefused},
		{"no key named", func(d *delivery) { d.kid = "" }, webhook.ErrRefused},
		{"a symmetric key of the public one's bytes", func(d *delivery) { d.alg, d.key = jose.HS256, m.es.X.Bytes() }, webhook.ErrRefused},
		{"Ed25519", func(d *delivery) { d.alg, d.key, d.kid = jose.EdDSA, m.ed, "w1" }, webhook.ErrRefused},
		{"another mesh", func(d *delivery) { d.claims["iss"] = "https://other.example" }, webhook.ErrRefused},
		{"another receiver", func(d *delivery) { d.claims["aud"] = "https://app.example.com/hooks" }, webhook.ErrRefused},
		{"expired", func(d *delivery) {
			d.claims["iat"], d.claims["exp"] = m.now.Add(-8*time.Minute).Unix(), m.now.Add(-3*time.Minute).Unix()
		}, webhook.ErrRefused},
		{"of the future", func(d *delivery) {
			d.claims["iat"], d.claims["exp"] = m.now.Add(5*time.Minute).Unix(), m.now.Add(10*time.Minute).Unix()
		}, webhook.ErrRefused},
		{"valid for a year", func(d *delivery) { d.claims["exp"] = m.now.Add(365 * 24 * time.Hour).Unix() }, webhook.ErrRefused},
		{"without an end", func(d *delivery) { delete(d.claims, "exp") }, webhook.ErrRefused},
		{"without jti", func(d *delivery) { delete(d.claims, "jti") }, webhook.ErrRefused},
		{"without a task", func(d *delivery) { delete(d.claims, "taskId") }, webhook.ErrRefused},
		{"an unexpected task", func(d *delivery) { d.claims["taskId"] = "t2" }, webhook.ErrRefused},
		{"another event's id", func(d *delivery) { d.id = "s.1" }, webhook.ErrRefused},
		{"an old timestamp", func(d *delivery) { d.stamp = m.now.Add(-time.Hour) }, webhook.ErrRefused},
		{"a wrong own token", func(d *delivery) { d.ownToken = "guess" }, webhook.ErrRefused},
		{"too large", func(d *delivery) { d.body = strings.Repeat("x", 2000) }, webhook.ErrTooLarge},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := m.verifier(t, func(c *webhook.Config) {
				c.Token, c.MaxBody = "own", 1000
				c.Expect = func(task string) bool { return task == "t1" }
			})
			d := m.delivery()
			d.ownToken = "own"
			test.change(d)
			got, err := v.Verify(d.request(t, m))
			if !errors.Is(err, test.want) || test.want == nil && err != nil {
				t.Fatalf("error %v, want %v", err, test.want)
			}
			if err == nil && (got.ID != "s-1" || got.TaskID != "t1" || string(got.Body) != event || got.Sent.IsZero()) {
				t.Errorf("delivery %+v", got)
			}
		})
	}
}

func TestReplay(t *testing.T) {
	m := newMesh(t)
	v := m.verifier(t)
	d := m.delivery()
	if _, err := v.Verify(d.request(t, m)); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(d.request(t, m)); !errors.Is(err, webhook.ErrReplay) {
		t.Errorf("the same token again: %v", err)
	}
	d.claims["jti"] = "another"
	if _, err := v.Verify(d.request(t, m)); err != nil {
		t.Errorf("the same event again: %v", err)
	}
	full := m.verifier(t, func(c *webhook.Config) { c.Replays = webhook.NewMemory(1, m.clock) })
	if _, err := full.Verify(m.delivery().request(t, m)); err != nil {
		t.Fatal(err)
	}
	if _, err := full.Verify(m.delivery().request(t, m)); !errors.Is(err, webhook.ErrUnavailable) {
		t.Errorf("no room to remember: %v", err)
	}
	m.now = m.now.Add(20 * time.Minute)
	if _, err := full.Verify(m.delivery().request(t, m)); err != nil {
		t.Errorf("once the first has expired: %v", err)
	}
}

// TestKeys: a new key is found, one fetch a minute at most, and keys that are not
// published any more are not trusted for long.
func TestKeys(t *testing.T) {
	m := newMesh(t)
	v := m.verifier(t)
	if _, err := v.Verify(m.delivery().request(t, m)); err != nil {
		t.Fatal(err)
	}
	old := m.delivery()
	m.newKeys(t)
	m.kid = "k2"
	for range 100 {
		if _, err := v.Verify(m.delivery().request(t, m)); err == nil {
			t.Fatal("a key that nobody has fetched is trusted")
		}
	}
	if n := m.fetches.Load(); n != 1 {
		t.Errorf("%d fetches within a minute", n)
	}
	m.now = m.now.Add(2 * time.Minute)
	if _, err := v.Verify(m.delivery().request(t, m)); err != nil {
		t.Errorf("the new key: %v", err)
	}
	if _, err := v.Verify(old.request(t, m)); err == nil {
		t.Error("a key that was taken back is trusted")
	}
	m.away.Store(true)
	m.now = m.now.Add(time.Hour)
	if _, err := v.Verify(m.delivery().request(t, m)); err != nil {
		t.Errorf("while the keys cannot be fetched anew: %v", err)
	}
	if _, err := m.verifier(t).Verify(m.delivery().request(t, m)); !errors.Is(err, webhook.ErrUnavailable) {
		t.Errorf("without any keys: %v, want ErrUnavailable", err)
	}
}

// A signature by a key that was made since the keys were read is taken at once, as
// is a token by one: neither waits until the keys are read anyway.
func TestNewSignatureKey(t *testing.T) {
	m := newMesh(t)
	v := m.verifier(t)
	if _, err := v.Verify(m.delivery().request(t, m)); err != nil {
		t.Fatal(err)
	}
	es := m.es
	m.newKeys(t)
	m.es = es // the other purpose's key is as it was
	m.now = m.now.Add(2 * time.Minute)
	if _, err := v.Verify(m.delivery().request(t, m)); err != nil {
		t.Errorf("signed by a new key: %v", err)
	}
}

func TestHandler(t *testing.T) {
	m := newMesh(t)
	taken := 0
	result := errors.New("not now")
	h := m.verifier(t).Handler(func(context.Context, *webhook.Delivery) error { taken++; return result })
	ask := func(d *delivery, want int) {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, d.request(t, m))
		if w.Code != want {
			t.Errorf("status %d, want %d", w.Code, want)
		}
	}
	ask(m.delivery(), 500)
	result = nil
	ask(m.delivery(), 204)
	ask(m.delivery(), 204) // the same event under another token
	if taken != 2 {
		t.Errorf("taken %d times, want 2", taken)
	}
	wrong := m.delivery()
	wrong.body = "{}"
	ask(wrong, 401)
	result = webhook.ErrGone
	gone := m.delivery()
	gone.id = "s-2"
	ask(gone, 410)
	ask(gone, 409)
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil)); w.Code != 405 {
		t.Errorf("GET: status %d", w.Code)
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []webhook.Config{
		{}, {Issuer: "https://m.example"}, {Audience: "https://a.example"}, {Issuer: "m.example", Audience: "https://a.example"},
		{Issuer: "http://m.example", Audience: "https://a.example"},
		{Issuer: "https://m.example", Audience: "https://a.example", KeysURL: "http://m.example/keys"},
		{Issuer: "https://m.example", Audience: "https://a.example", KeysURL: "https://u:p@m.example/keys"},
	} {
		if _, err := webhook.New(c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// FuzzVerify: nothing but the mesh's own deliveries passes.
func FuzzVerify(f *testing.F) {
	m := newMesh(f)
	v := m.verifier(f)
	good := m.delivery().request(f, m)
	f.Add(good.Header.Get("Authorization"), "", "s-1", good.Header.Get("Webhook-Timestamp"), good.Header.Get("Webhook-Signature"), []byte("{}"))
	f.Add("Bearer a.b.c", "a.b.c", "", "0", "v1a,AAAA", []byte(nil))
	f.Add("bearer eyJhbGciOiJub25lIn0.e30.", "", "x", "-1", "v1a", []byte(event))
	f.Fuzz(func(t *testing.T, authorization, token, id, stamp, signature string, body []byte) {
		h := http.Header{"Authorization": {authorization}, "Webhook-Id": {id}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {signature}}
		if token != "" {
			h.Set(webhook.HeaderToken, token)
		}
		d, err := v.VerifyBody(t.Context(), h, body)
		if err == nil && !bytes.Equal(body, []byte(event)) {
			t.Fatalf("%q passed as %+v", body, d)
		}
	})
}
