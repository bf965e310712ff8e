package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
)

// What the OpenID provider of oidc/provider.js knows.
const (
	ProviderAudience = "https://mesh.example" // the resource its tokens are for
	ProviderClient   = "parley-cli"           // a public client with the device flow
	ProviderJob      = "batch-job"            // a client with client credentials
	providerSecret   = "only-of-this-test-provider"
)

// Provider is a running OpenID provider.
type Provider struct {
	Issuer  string
	process *process
}

// StartProvider starts the OpenID provider, after installing what it needs, and
// returns when it serves. It runs until Stop, or until ctx ends.
func StartProvider(ctx context.Context) (*Provider, error) {
	root, err := repository()
	if err != nil {
		return nil, err
	}
	if err := command(ctx, root, filepath.Join(root, "interop", "install")); err != nil {
		return nil, err
	}
	script := filepath.Join(root, "interop", "oidc", "provider.js")
	process, err := launch(ctx, "OpenID provider", nil, "node", script, "--audience", ProviderAudience)
	if err != nil {
		return nil, err
	}
	p := &Provider{process: process}
	line, err := process.firstLine(ctx)
	if err == nil {
		var ready bool
		if p.Issuer, ready = strings.CutPrefix(line, "ready "); !ready {
			err = fmt.Errorf("the OpenID provider says %q instead of being ready", line)
		}
	}
	if err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// Stop ends the provider.
func (p *Provider) Stop() error { return p.process.stop() }

// JobToken gives an access token that ProviderJob gets for itself.
func (p *Provider) JobToken(ctx context.Context) (string, error) {
	var answer struct {
		AccessToken string `json:"access_token"`
	}
	err := p.post(ctx, "/token", url.Values{
		"grant_type": {"client_credentials"}, "resource": {ProviderAudience}, "scope": {"call"},
		"client_id": {ProviderJob}, "client_secret": {providerSecret},
	}, &answer)
	return answer.AccessToken, err
}

// Approve does what a person does who is asked by the device flow.
func (p *Provider) Approve(ctx context.Context, userCode, account string) error {
	return p.post(ctx, "/test/approve", url.Values{"user_code": {userCode}, "account": {account}}, nil)
}

// Rotate gives the provider new keys and takes the old ones away.
func (p *Provider) Rotate(ctx context.Context, algorithm string) error {
	return p.post(ctx, "/test/rotate?alg="+algorithm, nil, nil)
}

// KeyFetches is how often its keys were asked for.
func (p *Provider) KeyFetches(ctx context.Context) (int, error) {
	var answer struct {
		KeyFetches int `json:"keyFetches"`
	}
	err := p.post(ctx, "/test/counts", nil, &answer)
	return answer.KeyFetches, err
}

// post sends a form and decodes the answer into out, unless that is nil.
func (p *Provider) post(ctx context.Context, path string, form url.Values, out any) (err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.Issuer+path, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s%s", path, resp.Status, body, p.process.said())
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(body, out)
}
