package signon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

const (
	deviceGrant     = "urn:ietf:params:oauth:grant-type:device_code"
	defaultInterval = 5 * time.Second // RFC 8628, section 3.2
	slowDown        = 5 * time.Second // section 3.5
	maxInterval     = 2 * time.Minute
	maxDeviceLife   = time.Hour // of a code, whatever the issuer says
)

// Prompt is what a person is asked to do.
type Prompt struct {
	VerificationURI string        // to be opened
	UserCode        string        // to be entered there
	Complete        string        // the same address with the code in it; may be empty
	ExpiresIn       time.Duration // from when it was asked for

	deviceCode string
	interval   time.Duration
}

// Tokens are what an issuer gave.
type Tokens struct {
	Access    string
	Refresh   string    // empty: none
	ExpiresAt time.Time // of Access; zero: not told
}

// Begin asks an issuer for a code that a person confirms.
func (c *Client) Begin(ctx context.Context, e *Endpoints, o Offer) (*Prompt, error) {
	var answer struct {
		DeviceCode string `json:"device_code"`
		UserCode   string `json:"user_code"`
		URI        string `json:"verification_uri"`
		Complete   string `json:"verification_uri_complete"`
		ExpiresIn  int64  `json:"expires_in"`
		Interval   int64  `json:"interval"`
	}
	form := url.Values{"client_id": {o.ClientID}, "scope": {strings.Join(o.Scopes, " ")}}
	if o.Resource != "" {
		form.Set("resource", o.Resource)
	}
	if err := c.post(ctx, e.Device, form, &answer); err != nil {
		return nil, askError("signon.begin", e.Issuer, err)
	}
	if answer.DeviceCode == "" || answer.UserCode == "" || answer.URI == "" {
		return nil, askError("signon.begin", e.Issuer, errors.New("its answer lacks the code or the address"))
	}
	p := &Prompt{
		VerificationURI: answer.URI, UserCode: answer.UserCode, Complete: answer.Complete, deviceCode: answer.DeviceCode,
		ExpiresIn: seconds(answer.ExpiresIn, maxDeviceLife), interval: seconds(answer.Interval, maxInterval),
	}
	p.ExpiresIn, p.interval = cmp.Or(p.ExpiresIn, maxDeviceLife), cmp.Or(p.interval, defaultInterval)
	return p, nil
}

// seconds is n seconds, at least 0 and at most limit.
func seconds(n int64, limit time.Duration) time.Duration {
	return time.Duration(min(max(n, 0), int64(limit/time.Second))) * time.Second
}

// Await asks for the tokens, as often as the issuer likes to be asked, until
// the person has decided or the code has expired. Errors: parley.Denied,
// parley.Timeout, parley.Unavailable, or that of ctx.
func (c *Client) Await(ctx context.Context, e *Endpoints, o Offer, p *Prompt) (*Tokens, error) {
	const op parley.Op = "signon.await"
	expired := parley.E(op, parley.Timeout, parley.Subject(e.Issuer), "nobody confirmed the code in time: start again with parley login", nil)
	form := url.Values{"grant_type": {deviceGrant}, "device_code": {p.deviceCode}, "client_id": {o.ClientID}}
	if o.Resource != "" {
		form.Set("resource", o.Resource)
	}
	end := time.Now().Add(p.ExpiresIn)
	for interval := p.interval; ; {
		timer := time.NewTimer(interval)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
		tokens, err := c.tokens(ctx, e.Token, form)
		if err == nil {
			return tokens, nil
		}
		var r *refusal
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !errors.As(err, &r): // the issuer is away for a moment: RFC 8628, section 3.5
			interval = min(interval*2, maxInterval)
		case r.Code == "authorization_pending":
		case r.Code == "slow_down":
			interval = min(interval+slowDown, maxInterval)
		case r.Code == "access_denied":
			return nil, parley.E(op, parley.Denied, parley.Subject(e.Issuer), "the login was declined", err)
		case r.Code == "expired_token":
			return nil, expired
		default:
			return nil, askError(op, e.Issuer, err)
		}
		if !time.Now().Add(interval).Before(end) {
			return nil, expired
		}
	}
}

// tokens sends one token request.
func (c *Client) tokens(ctx context.Context, place string, form url.Values) (*Tokens, error) {
	var answer struct {
		Access    string `json:"access_token"`
		Refresh   string `json:"refresh_token"`
		Type      string `json:"token_type"`
		ExpiresIn int64  `json:"expires_in"`
	}
	asked := time.Now()
	if err := c.post(ctx, place, form, &answer); err != nil {
		return nil, err
	}
	if !strings.EqualFold(answer.Type, "bearer") || !headerText(answer.Access) {
		return nil, &refusal{Code: "the issuer gave no bearer token"}
	}
	t := &Tokens{Access: answer.Access, Refresh: answer.Refresh}
	if answer.ExpiresIn > 0 {
		t.ExpiresAt = asked.Add(seconds(answer.ExpiresIn, 366*24*time.Hour))
	}
	return t, nil
}

// headerText reports whether a token can stand in a header.
func headerText(token string) bool {
	return token != "" && !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// askError words what went wrong with an issuer.
func askError(op parley.Op, issuer string, err error) error {
	var r *refusal
	if errors.As(err, &r) {
		return parley.E(op, parley.Denied, parley.Subject(issuer), fmt.Sprintf("%s refuses the login: %v", issuer, r), err)
	}
	return parley.E(op, parley.Unavailable, parley.Subject(issuer), fmt.Sprintf("the issuer %s cannot be asked: %v", issuer, err), err)
}
