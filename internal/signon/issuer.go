package signon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

const (
	maxAnswer  = 256 << 10        // bytes of one answer of an issuer
	askTimeout = 30 * time.Second // for one answer
)

// Endpoints are where an issuer is asked for what.
type Endpoints struct {
	Issuer string `json:"issuer"`
	Device string `json:"device_authorization_endpoint"`
	Token  string `json:"token_endpoint"`
	Revoke string `json:"revocation_endpoint"` // empty: it has none
}

// Client talks to issuers for one person.
type Client struct {
	http *http.Client
}

// NewClient makes a client that asks through t; nil means http.DefaultTransport.
func NewClient(t http.RoundTripper) *Client {
	return &Client{&http.Client{
		Transport: t, Timeout: askTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Discover finds an issuer's endpoints. The metadata must be the issuer's own
// words. Errors: parley.Unavailable, parley.Unsupported where there is no device
// flow.
func (c *Client) Discover(ctx context.Context, issuer, metadataURL string) (*Endpoints, error) {
	const op parley.Op = "signon.discover"
	var failed []error
	for _, place := range MetadataURLs(issuer, metadataURL) {
		var e Endpoints
		err := c.get(ctx, place, &e)
		switch {
		case err != nil:
			failed = append(failed, err)
			continue
		case e.Issuer != issuer:
			failed = append(failed, fmt.Errorf("the metadata at %s are of another issuer", place))
			continue
		case e.Device == "" || e.Token == "":
			return nil, parley.E(op, parley.Unsupported, parley.Subject(issuer), issuer+" has no device flow: let its operators turn it on, or use an API key", nil)
		}
		for _, endpoint := range []string{e.Device, e.Token} {
			if err := checkPlace(endpoint); err != nil {
				return nil, parley.E(op, parley.Unavailable, parley.Subject(issuer), issuer+" names an address that is not asked: "+err.Error(), nil)
			}
		}
		return &e, nil
	}
	err := errors.Join(failed...)
	return nil, parley.E(op, parley.Unavailable, parley.Subject(issuer), fmt.Sprintf("the issuer %s cannot be asked: %v", issuer, err), err)
}

// checkPlace accepts https, and http on this machine.
func checkPlace(place string) error {
	u, err := url.Parse(place)
	if err != nil || u.Host == "" || u.User != nil {
		return fmt.Errorf("%.200q is no address", place)
	}
	ip := net.ParseIP(u.Hostname())
	local := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	if u.Scheme != "https" && (u.Scheme != "http" || !local) {
		return fmt.Errorf("%s is not https", u.Redacted())
	}
	return nil
}

func (c *Client) get(ctx context.Context, place string, out any) error {
	if err := checkPlace(place); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, place, nil)
	if err != nil {
		return err
	}
	status, body, err := c.do(req)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("%s answers with status %d", place, status)
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("what %s answers is not the JSON it should be: %w", place, err)
	}
	return nil
}

// do asks once and reads the whole answer.
func (c *Client) do(req *http.Request) (status int, body []byte, err error) {
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "parley")
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	}
	return resp.StatusCode, body, err
}

// refusal is an error answer of RFC 6749, section 5.2.
type refusal struct {
	Code        string `json:"error"`
	Description string `json:"error_description"`
}

func (r *refusal) Error() string {
	if r.Description == "" {
		return r.Code
	}
	return r.Code + ": " + r.Description
}

// post sends a form and decodes what comes back. A *refusal is the issuer's no.
func (c *Client) post(ctx context.Context, place string, form url.Values, out any) error {
	if err := checkPlace(place); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, place, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	status, body, err := c.do(req)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		var r refusal
		if json.Unmarshal(body, &r) == nil && r.Code != "" && status < 500 {
			return &r
		}
		return fmt.Errorf("the issuer answers with status %d", status)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("the issuer's answer is not the JSON it should be")
	}
	return nil
}
