package control

import (
	"context"
	"net/http"
	"net/url"

	"github.com/parley-mesh/parley/internal/parley"
)

// Owners lists owners by name.
func (c *Client) Owners(ctx context.Context, l List) (out Page[Owner], err error) {
	err = c.do(ctx, request{op: "control.owners", method: http.MethodGet, path: "/owners", query: l.values()}, &out)
	return out, err
}

// CreateOwner adds an owner.
func (c *Client) CreateOwner(ctx context.Context, n NewOwner) (out Owner, err error) {
	err = c.do(ctx, request{op: "control.createOwner", method: http.MethodPost, path: "/owners", body: n}, &out)
	return out, err
}

// Owner gives one owner.
func (c *Client) Owner(ctx context.Context, name parley.OwnerName) (out Owner, err error) {
	err = c.do(ctx, request{op: "control.owner", method: http.MethodGet, path: "/owners/" + segment(name)}, &out)
	return out, err
}

// UpdateOwner changes an owner. A version other than 0 must be the current one.
func (c *Client) UpdateOwner(ctx context.Context, name parley.OwnerName, version int64, change OwnerChange) (out Owner, err error) {
	err = c.do(ctx, request{op: "control.updateOwner", method: http.MethodPatch, path: "/owners/" + segment(name), version: version, body: change}, &out)
	return out, err
}

// DeleteOwner removes an owner that answers for nothing any more.
func (c *Client) DeleteOwner(ctx context.Context, name parley.OwnerName, version int64) error {
	return c.do(ctx, request{op: "control.deleteOwner", method: http.MethodDelete, path: "/owners/" + segment(name), version: version}, nil)
}

// Principals lists principals by name; owner empty means all.
func (c *Client) Principals(ctx context.Context, owner parley.OwnerName, l List) (out Page[Principal], err error) {
	q := l.values()
	setText(q, "owner", owner)
	err = c.do(ctx, request{op: "control.principals", method: http.MethodGet, path: "/principals", query: q}, &out)
	return out, err
}

// CreatePrincipal adds a principal.
func (c *Client) CreatePrincipal(ctx context.Context, n NewPrincipal) (out Principal, err error) {
	err = c.do(ctx, request{op: "control.createPrincipal", method: http.MethodPost, path: "/principals", body: n}, &out)
	return out, err
}

// Principal gives one principal.
func (c *Client) Principal(ctx context.Context, name parley.PrincipalName) (out Principal, err error) {
	err = c.do(ctx, request{op: "control.principal", method: http.MethodGet, path: "/principals/" + segment(name)}, &out)
	return out, err
}

// UpdatePrincipal changes a principal. A version other than 0 must be the
// current one.
func (c *Client) UpdatePrincipal(ctx context.Context, name parley.PrincipalName, version int64, change PrincipalChange) (out Principal, err error) {
	err = c.do(ctx, request{op: "control.updatePrincipal", method: http.MethodPatch, path: "/principals/" + segment(name), version: version, body: change}, &out)
	return out, err
}

// DeletePrincipal removes a principal and its keys.
func (c *Client) DeletePrincipal(ctx context.Context, name parley.PrincipalName, version int64) error {
	return c.do(ctx, request{op: "control.deletePrincipal", method: http.MethodDelete, path: "/principals/" + segment(name), version: version}, nil)
}

// Keys lists keys; principal empty means all.
func (c *Client) Keys(ctx context.Context, principal parley.PrincipalName, l List) (out Page[Key], err error) {
	q := l.values()
	setText(q, "principal", principal)
	err = c.do(ctx, request{op: "control.keys", method: http.MethodGet, path: "/keys", query: q}, &out)
	return out, err
}

// CreateKey makes a key; its text is in the answer and nowhere else.
func (c *Client) CreateKey(ctx context.Context, n NewKey) (out CreatedKey, err error) {
	err = c.do(ctx, request{op: "control.createKey", method: http.MethodPost, path: "/keys", body: n}, &out)
	return out, err
}

// Key gives one key without its secret.
func (c *Client) Key(ctx context.Context, id string) (out Key, err error) {
	err = c.do(ctx, request{op: "control.key", method: http.MethodGet, path: "/keys/" + segment(id)}, &out)
	return out, err
}

// RevokeKey makes a key identify nobody from now on.
func (c *Client) RevokeKey(ctx context.Context, id string) (out Key, err error) {
	err = c.do(ctx, request{op: "control.revokeKey", method: http.MethodPost, path: "/keys/" + segment(id) + "/revoke"}, &out)
	return out, err
}

// FreezePrincipal stops everything of a principal.
func (c *Client) FreezePrincipal(ctx context.Context, name parley.PrincipalName, reason string) (out Principal, err error) {
	err = c.do(ctx, request{op: "control.freezePrincipal", method: http.MethodPost, path: "/principals/" + segment(name) + "/freeze", body: Freeze{reason}}, &out)
	return out, err
}

// UnfreezePrincipal takes a freeze back.
func (c *Client) UnfreezePrincipal(ctx context.Context, name parley.PrincipalName) (out Principal, err error) {
	err = c.do(ctx, request{op: "control.unfreezePrincipal", method: http.MethodPost, path: "/principals/" + segment(name) + "/unfreeze"}, &out)
	return out, err
}

// CertNames lists the names in client certificates that prove a principal.
func (c *Client) CertNames(ctx context.Context, name parley.PrincipalName) (out CertNames, err error) {
	err = c.do(ctx, request{op: "control.certNames", method: http.MethodGet, path: "/principals/" + segment(name) + "/names"}, &out)
	return out, err
}

// LinkCertName lets a name in client certificates prove a principal.
func (c *Client) LinkCertName(ctx context.Context, name parley.PrincipalName, n NewCertName) (out PrincipalCertName, err error) {
	err = c.do(ctx, request{op: "control.linkCertName", method: http.MethodPost, path: "/principals/" + segment(name) + "/names", body: n}, &out)
	return out, err
}

// UnlinkCertName takes a name from a principal.
func (c *Client) UnlinkCertName(ctx context.Context, name parley.PrincipalName, n NewCertName) error {
	q := url.Values{"kind": {string(n.Kind)}, "name": {n.Name}}
	return c.do(ctx, request{op: "control.unlinkCertName", method: http.MethodDelete, path: "/principals/" + segment(name) + "/names", query: q}, nil)
}
