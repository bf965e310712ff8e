package signon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

const (
	maxLogin = 64 << 10 // bytes of a login's file
	// renewBefore is how long before its end a token is renewed, so that it does
	// not end on the way.
	renewBefore = 30 * time.Second
)

// Login is what is kept of a login at one mesh.
type Login struct {
	Origin    string    `json:"origin"` // of the mesh: the only one that Access is sent to
	Issuer    string    `json:"issuer"`
	ClientID  string    `json:"client_id"`
	Resource  string    `json:"resource,omitempty"`
	TokenURL  string    `json:"token_url"`
	RevokeURL string    `json:"revoke_url,omitempty"`
	Access    string    `json:"access_token"`
	Refresh   string    `json:"refresh_token,omitempty"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// ErrNone is the cause where nobody is logged in at a mesh.
var ErrNone = errors.New("not logged in")

// Logins keeps the logins of one person, a file each below Dir.
type Logins struct {
	Dir string
}

// DefaultDir is where logins are kept: parley/logins in the user's folder for
// configuration. getenv gives an environment variable; empty counts as unset.
func DefaultDir(getenv func(string) string) (string, error) {
	if dir := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "parley", "logins"), nil
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".config", "parley", "logins"), nil
	}
	return "", errors.New("there is no home folder to keep logins in: set XDG_CONFIG_HOME")
}

func (l Logins) path(origin string) string {
	sum := sha256.Sum256([]byte(origin))
	return filepath.Join(l.Dir, hex.EncodeToString(sum[:12])+".json")
}

// Load gives the login at a mesh. Without one the error is ErrNone.
func (l Logins) Load(origin string) (_ *Login, err error) {
	f, err := os.Open(l.path(origin))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, fmt.Errorf("read the login: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	raw, err := io.ReadAll(io.LimitReader(f, maxLogin))
	if err != nil {
		return nil, fmt.Errorf("read the login: %w", err)
	}
	var kept Login
	if err := json.Unmarshal(raw, &kept); err != nil || kept.Origin != origin || !headerText(kept.Access) {
		return nil, fmt.Errorf("read the login: %s is damaged: log in again (parley login)", f.Name())
	}
	return &kept, nil
}

// Save keeps a login in the place of the one before. Nobody else can read it.
func (l Logins) Save(login *Login) (err error) {
	if err := os.MkdirAll(l.Dir, 0o700); err != nil {
		return fmt.Errorf("keep the login: %w", err)
	}
	raw, err := json.Marshal(login)
	if err != nil {
		return fmt.Errorf("keep the login: %w", err)
	}
	f, err := os.CreateTemp(l.Dir, "new-*") // 0600
	if err != nil {
		return fmt.Errorf("keep the login: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("keep the login: %w", errors.Join(err, ignoreMissing(os.Remove(f.Name()))))
		}
	}()
	_, err = f.Write(raw)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), l.path(login.Origin))
}

// Remove forgets the login at a mesh; ErrNone where there is none.
func (l Logins) Remove(origin string) error {
	err := os.Remove(l.path(origin))
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNone
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Token gives a token for a mesh, renewed where the kept one is at its end.
// Processes of one person take turns at that: issuers take back everything if
// they see one refresh token twice. Errors: ErrNone; parley.Unauthorized where
// the login is over; parley.Unavailable where the issuer cannot be asked.
func (l Logins) Token(ctx context.Context, c *Client, origin string) (string, error) {
	login, err := l.Load(origin)
	if err != nil {
		return "", err
	}
	if login.fresh(time.Now()) {
		return login.Access, nil
	}
	unlock, err := l.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if login, err = l.Load(origin); err != nil { // somebody may have renewed it meanwhile
		return "", err
	}
	if login.fresh(time.Now()) {
		return login.Access, nil
	}
	if err := c.renew(ctx, login); err != nil {
		return "", err
	}
	return login.Access, l.Save(login)
}

func (login *Login) fresh(now time.Time) bool {
	return login.ExpiresAt.IsZero() || now.Before(login.ExpiresAt.Add(-renewBefore))
}

// renew gets new tokens for a login.
func (c *Client) renew(ctx context.Context, login *Login) error {
	const op parley.Op = "signon.renew"
	over := "the login at " + login.Issuer + " is over: log in again (parley login)"
	if login.Refresh == "" {
		return parley.E(op, parley.Unauthorized, parley.Subject(login.Origin), over, nil)
	}
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {login.Refresh}, "client_id": {login.ClientID}}
	if login.Resource != "" {
		form.Set("resource", login.Resource)
	}
	tokens, err := c.tokens(ctx, login.TokenURL, form)
	var r *refusal
	switch {
	case errors.As(err, &r):
		return parley.E(op, parley.Unauthorized, parley.Subject(login.Origin), over, err)
	case err != nil:
		return askError(op, login.Issuer, err)
	}
	login.Access, login.ExpiresAt = tokens.Access, tokens.ExpiresAt
	if tokens.Refresh != "" { // it may stay the same
		login.Refresh = tokens.Refresh
	}
	return nil
}

// Revoke tells the issuer that a login is over (RFC 7009). An issuer that has no
// place for that is not asked.
func (c *Client) Revoke(ctx context.Context, login *Login) error {
	if login.RevokeURL == "" || login.Refresh == "" {
		return nil
	}
	return c.post(ctx, login.RevokeURL, url.Values{
		"token": {login.Refresh}, "token_type_hint": {"refresh_token"}, "client_id": {login.ClientID},
	}, nil)
}
