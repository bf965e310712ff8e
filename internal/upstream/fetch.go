package upstream

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/netguard"
	"github.com/parley-mesh/parley/internal/registry"
)

// Limits of a token endpoint's answer.
const (
	maxAnswer = 64 << 10 // bytes
	maxToken  = 16 << 10 // bytes; agents take less than that in a header
	// defaultLife is how long a token is taken to live of which its endpoint
	// does not say so; maxLife the longest that is believed.
	defaultLife = 5 * time.Minute
	maxLife     = 24 * time.Hour
)

// guarded is the client for a credential's token endpoint.
func (t *Tokens) guarded(c *registry.Credential) (Fetcher, error) {
	o := netguard.FetchOptions{MaxBody: maxAnswer, HeaderTimeout: t.opts.Timeout, Timeout: t.opts.Timeout}
	if c.Certificate != nil {
		config, err := c.Certificate.TLS()
		if err != nil {
			return nil, err
		}
		// The agent's client certificate is not the token endpoint's business.
		config.Certificates = nil
		o.TLS = config
	}
	return t.opts.Guard.FetchClient(o), nil
}

// fetch asks for a token once. Its errors name neither secret nor token, and
// of what the endpoint wrote only the error code of RFC 6749.
func (t *Tokens) fetch(ctx context.Context, c *registry.Credential) (text string, life time.Duration, err error) {
	if c.Token == nil {
		return "", 0, errors.New("no token endpoint is stored")
	}
	client, err := t.fetcher(c)
	if err != nil {
		return "", 0, err
	}
	resp, err := client.Fetch(ctx, c.Token.URL, request(c))
	if err != nil {
		return "", 0, fmt.Errorf("ask the token endpoint: %w", err)
	}
	if resp.Status != http.StatusOK {
		return "", 0, refusal(resp)
	}
	return read(resp)
}

// lax takes members that the RFC does not know.
var lax = jsonwire.CheckOptions{Limits: jsonwire.Limits{MaxBytes: maxAnswer}, Lax: true}

// request is the access token request of RFC 6749, section 4.4.2.
func request(c *registry.Credential) netguard.Request {
	form := url.Values{"grant_type": {"client_credentials"}}
	if len(c.Token.Scopes) > 0 {
		form.Set("scope", strings.Join(c.Token.Scopes, " "))
	}
	if c.Token.Audience != "" {
		form.Set("audience", c.Token.Audience)
	}
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}}
	if c.Token.Style == registry.AuthPost {
		form.Set("client_id", c.Name)
		form.Set("client_secret", c.Secret)
	} else {
		// Both are form-encoded before they are joined (section 2.3.1).
		pair := url.QueryEscape(c.Name) + ":" + url.QueryEscape(c.Secret)
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
	}
	return netguard.Request{Method: http.MethodPost, Header: header, Body: []byte(form.Encode()), AnyStatus: true}
}

// codes are the errors of RFC 6749, section 5.2, and what an operator does
// about them.
var codes = map[string]string{
	"invalid_request":        "the endpoint does not understand the request; try the other --auth-style",
	"invalid_client":         "check the client id, the secret and --auth-style",
	"invalid_grant":          "the endpoint grants this client nothing",
	"unauthorized_client":    "let the client use the grant client_credentials",
	"unsupported_grant_type": "the endpoint does not know the grant client_credentials",
	"invalid_scope":          "check --scope",
	"invalid_target":         "check --audience",
}

// refusal says what an endpoint's error means. Its own words stay out: they may
// repeat what it was sent.
func refusal(resp *netguard.Response) error {
	var answer struct {
		Error string `json:"error"`
	}
	if problems := jsonwire.UnmarshalAll(resp.Body, &answer, lax); problems == nil {
		if fix, known := codes[answer.Error]; known {
			return fmt.Errorf("the token endpoint answered HTTP %d %s: %s", resp.Status, answer.Error, fix)
		}
	}
	return fmt.Errorf("the token endpoint answered HTTP %d", resp.Status)
}

// read takes a successful answer apart (RFC 6749, section 5.1).
func read(resp *netguard.Response) (text string, life time.Duration, err error) {
	var answer struct {
		AccessToken string         `json:"access_token"`
		TokenType   string         `json:"token_type"`
		ExpiresIn   jsontext.Value `json:"expires_in"`
	}
	if problems := jsonwire.UnmarshalAll(resp.Body, &answer, lax); problems != nil {
		return "", 0, errors.New("the token endpoint's answer is not the JSON of RFC 6749") // the cause may quote it
	}
	switch {
	case answer.AccessToken == "":
		return "", 0, errors.New("the token endpoint's answer has no access_token")
	case len(answer.AccessToken) > maxToken:
		return "", 0, fmt.Errorf("the token endpoint's token is longer than %d bytes", maxToken)
	case strings.ContainsFunc(answer.AccessToken, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", 0, errors.New("the token endpoint's token holds characters that no header may carry")
	case !strings.EqualFold(answer.TokenType, "bearer"):
		return "", 0, errors.New("the token endpoint's token_type is not Bearer, which is the one that the mesh can show")
	}
	return answer.AccessToken, lifeOf(string(answer.ExpiresIn)), nil
}

// lifeOf reads a number of seconds as token endpoints write it: a number, and
// with some a string that holds one. What is neither says nothing.
func lifeOf(expiresIn string) time.Duration {
	seconds, err := strconv.ParseFloat(strings.Trim(expiresIn, `"`), 64)
	if err != nil || math.IsNaN(seconds) {
		return defaultLife
	}
	return time.Duration(min(max(seconds, 1), maxLife.Seconds()) * float64(time.Second))
}
