package control

import (
	"context"
	"net/http"
	"net/url"

	"github.com/parley-mesh/parley/internal/parley"
)

// Subjects lists the subjects of issuers that are a principal.
func (c *Client) Subjects(ctx context.Context, name parley.PrincipalName) (out Page[Subject], err error) {
	err = c.do(ctx, request{op: "control.subjects", method: http.MethodGet, path: "/principals/" + segment(name) + "/subjects"}, &out)
	return out, err
}

// LinkSubject makes a subject of an issuer be a principal.
func (c *Client) LinkSubject(ctx context.Context, name parley.PrincipalName, n NewSubject) (out Subject, err error) {
	err = c.do(ctx, request{op: "control.linkSubject", method: http.MethodPost, path: "/principals/" + segment(name) + "/subjects", body: n}, &out)
	return out, err
}

// UnlinkSubject lets a subject be nobody again.
func (c *Client) UnlinkSubject(ctx context.Context, name parley.PrincipalName, n NewSubject) error {
	q := url.Values{"issuer": {n.Issuer}, "subject": {n.Subject}}
	return c.do(ctx, request{op: "control.unlinkSubject", method: http.MethodDelete, path: "/principals/" + segment(name) + "/subjects", query: q}, nil)
}

// WhoAmI tells who the mesh takes this client for.
func (c *Client) WhoAmI(ctx context.Context) (out Identity, err error) {
	err = c.do(ctx, request{op: "control.whoAmI", method: http.MethodGet, path: whoAmIPath}, &out)
	return out, err
}
