package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
	"github.com/parley-mesh/parley/internal/signon"
)

const (
	maxResource     = 256 << 10        // bytes of a mesh's description of itself
	resourceTimeout = 30 * time.Second // for it to arrive
)

// loginFlags narrow or replace what the mesh offers.
type loginFlags struct {
	issuer, clientID, resource string
	scopes                     []string
}

func loginCommand(p *program) *cobra.Command {
	var f loginFlags
	cmd := &cobra.Command{
		Use: "login", Short: "Log in at a mesh with the account of your organisation",
		Long: `Log in at a mesh elsewhere with the account of your organisation. An address and a
code are printed: open the address in any browser, on any machine, and confirm the
code there. What comes of it is kept in ` + loginsDir + `, readable by you
alone, and is sent to that mesh only. From then on verbs with the same --server use
it wherever no key is given; it renews itself as long as the issuer lets it.

The mesh on this machine needs no login: its socket is enough.`,
		Example: "  parley login --server https://mesh.example.com\n  parley login --server https://mesh.example.com --issuer https://login.example.com --client-id parley-cli",
		Args:    arguments(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.login(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.issuer, "issuer", "", "which of the mesh's issuers, where there are several")
	flags.StringVar(&f.clientID, "client-id", "", "client to be there instead of the one that the mesh names; it must be public and may use the device flow")
	flags.StringSliceVar(&f.scopes, "scope", nil, "scopes to ask for instead of those that the mesh names")
	flags.StringVar(&f.resource, "resource", "", "resource to ask a token for instead of the one that the mesh names")
	return cmd
}

// loginsDir is where logins are kept, as help texts write it.
const loginsDir = "$XDG_CONFIG_HOME/parley/logins"

func logoutCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "logout", Short: "Forget the login at a mesh",
		Example: "  parley logout --server https://mesh.example.com",
		Args:    arguments(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.logout(cmd.Context()) },
	}
}

func whoamiCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "whoami", Short: "Say who the mesh takes you for, and why",
		Example: "  parley whoami\n  parley whoami --server https://mesh.example.com --output json",
		Args:    arguments(),
		RunE: p.managing(func(ctx context.Context, c *control.Client, _ []string) error {
			who, err := c.WhoAmI(ctx)
			if err != nil {
				return err
			}
			return p.show(who, func(f *facts) {
				f.add("name", string(who.Name))
				f.add("owner", string(who.Owner))
				f.add("environment", string(who.Environment))
				f.add("agent", string(who.Agent))
				f.add("roles", joined(who.Roles))
				f.add("key", who.Key)
				f.add("issuer", who.Issuer)
			})
		}),
	}
}

// login is the verb of that name.
func (p *program) login(ctx context.Context, f loginFlags) error {
	m, origin, logins, err := p.loginPlace()
	if err != nil {
		return err
	}
	offer, err := p.offer(ctx, m, f)
	if err != nil {
		return err
	}
	issuers, err := p.issuerClient()
	if err != nil {
		return err
	}
	endpoints, err := issuers.Discover(ctx, offer.Issuer, offer.MetadataURL)
	if err != nil {
		return err
	}
	prompt, err := issuers.Begin(ctx, endpoints, offer)
	if err != nil {
		return err
	}
	p.askPerson(offer.Issuer, prompt)
	tokens, err := issuers.Await(ctx, endpoints, offer, prompt)
	if err != nil {
		return err
	}
	err = logins.Save(&signon.Login{
		Origin: origin, Issuer: offer.Issuer, ClientID: offer.ClientID, Resource: offer.Resource,
		TokenURL: endpoints.Token, RevokeURL: endpoints.Revoke,
		Access: tokens.Access, Refresh: tokens.Refresh, ExpiresAt: tokens.ExpiresAt,
	})
	if err != nil {
		return err
	}
	return p.loggedIn(ctx, m, offer.Issuer, tokens.Access)
}

// askPerson tells a person what to do. It is on the error stream and there in
// quiet too: without it nothing goes on.
func (p *program) askPerson(issuer string, prompt *signon.Prompt) {
	fmt.Fprintf(p.Err, "To log in at %s, open\n\n    %s\n\nand enter the code  %s\n", cleanLine(issuer), cleanLine(prompt.VerificationURI), cleanLine(prompt.UserCode))
	if prompt.Complete != "" {
		fmt.Fprintf(p.Err, "(or open %s and compare the code)\n", cleanLine(prompt.Complete))
	}
	p.remark("waiting for at most %s", prompt.ExpiresIn.Round(time.Second))
}

// loggedIn asks the mesh who the new token makes of the person.
func (p *program) loggedIn(ctx context.Context, m *mesh, issuer, token string) error {
	c, err := control.NewClient(&http.Client{Transport: m.plain}, m.base, token)
	if err != nil {
		return err
	}
	defer c.Close()
	who, err := c.WhoAmI(ctx)
	if err != nil {
		p.remark("the issuer has confirmed who you are and the login is kept, but the mesh does not take it yet:")
		return err
	}
	if m.given != "" {
		p.remark("a key is given in %s and counts before this login", m.given)
	}
	return p.done(who, "logged in at %s as %s of owner %s in %s", m.base, who.Name, who.Owner, who.Environment)
}

// logout is the verb of that name.
func (p *program) logout(ctx context.Context) error {
	m, origin, logins, err := p.loginPlace()
	if err != nil {
		return err
	}
	login, err := logins.Load(origin)
	if errors.Is(err, signon.ErrNone) {
		return parley.E("cli.logout", parley.NotFound, parley.Subject(m.base), "nobody is logged in at "+m.base, nil)
	}
	// What cannot be read is forgotten all the same.
	if removeErr := logins.Remove(origin); removeErr != nil {
		return removeErr
	}
	if err == nil {
		issuers, err := p.issuerClient()
		if err == nil {
			err = issuers.Revoke(ctx, login)
		}
		if err != nil {
			p.remark("the issuer was not told (%v): the login is forgotten here and ends there by itself", err)
		}
	}
	return p.done(removed{"logins/" + origin}, "logged out at %s", m.base)
}

// loginPlace is the mesh that a login is for, and where logins are kept.
func (p *program) loginPlace() (m *mesh, origin string, logins signon.Logins, err error) {
	if m, err = p.mesh(); err != nil {
		return nil, "", logins, err
	}
	if m.socket != "" {
		return nil, "", logins, usagef("--server is missing: a login is for a mesh elsewhere; the one on this machine takes you for its admin through its socket")
	}
	if origin, err = registry.OriginOf(m.base); err != nil {
		return nil, "", logins, usageError{err}
	}
	if logins.Dir, err = signon.DefaultDir(p.variable); err != nil {
		return nil, "", logins, usageError{err}
	}
	if strings.HasPrefix(m.base, "http://") && !loopback(m.base) {
		return nil, "", logins, usagef("--server %s is not encrypted, and a login would be readable on the way: use https", m.base)
	}
	return m, origin, logins, nil
}

// issuerClient talks to issuers, trusting the authorities that the mesh is
// trusted by too.
func (p *program) issuerClient() (*signon.Client, error) {
	trust, err := p.trust()
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = trust
	return signon.NewClient(transport), nil
}

// offer is how to log in: what the mesh says, as far as the flags do not say
// otherwise.
func (p *program) offer(ctx context.Context, m *mesh, f loginFlags) (signon.Offer, error) {
	described, err := m.resource(ctx)
	if err != nil {
		return signon.Offer{}, err
	}
	o, err := choose(described, f)
	if err != nil {
		return signon.Offer{}, err
	}
	o.ClientID, o.Resource = cmp.Or(f.clientID, o.ClientID), cmp.Or(f.resource, o.Resource)
	if len(f.scopes) > 0 {
		o.Scopes = f.scopes
	}
	if o.ClientID == "" {
		return signon.Offer{}, usagef("the mesh names no client for %s: give --client-id, or let its operators set login.client_id", o.Issuer)
	}
	return o, nil
}

// choose finds the issuer to log in at.
func choose(described *signon.Resource, f loginFlags) (signon.Offer, error) {
	if f.issuer != "" {
		for _, o := range described.Logins {
			if o.Issuer == f.issuer {
				return o, nil
			}
		}
		if slices.Contains(described.AuthorizationServers, f.issuer) {
			return signon.Offer{Issuer: f.issuer, Scopes: []string{"openid", "offline_access"}}, nil
		}
		return signon.Offer{}, usagef("the mesh takes no tokens of %s: it knows %s", f.issuer, strings.Join(described.AuthorizationServers, ", "))
	}
	switch len(described.Logins) {
	case 0:
		return signon.Offer{}, parley.E("cli.login", parley.Unsupported, "", "this mesh offers no interactive login: let its operators set login.client_id of an issuer, or give --issuer and --client-id", nil)
	case 1:
		return described.Logins[0], nil
	}
	var all []string
	for _, o := range described.Logins {
		all = append(all, o.Issuer)
	}
	return signon.Offer{}, usagef("the mesh knows several issuers: choose one with --issuer: %s", strings.Join(all, ", "))
}

// resource reads the mesh's description of itself. No credential is sent.
func (m *mesh) resource(ctx context.Context) (*signon.Resource, error) {
	const op parley.Op = "cli.login"
	ctx, cancel := context.WithTimeout(ctx, resourceTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.base+signon.MetadataPath, nil)
	if err != nil {
		return nil, err
	}
	resp, err := m.plain.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() // read as far as is wanted
	body, err := readAll(resp.Body, "the mesh's description", maxResource)
	if err != nil {
		return nil, err
	}
	var r signon.Resource
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return nil, parley.E(op, parley.Unsupported, parley.Subject(m.base), "the mesh at "+m.base+" takes no logins: its operators have configured no issuer (auth.issuers)", nil)
	case resp.StatusCode != http.StatusOK || json.Unmarshal(body, &r) != nil:
		return nil, parley.E(op, parley.Unavailable, parley.Subject(m.base), fmt.Sprintf("what answers at %s is not a Parley mesh: it said %s", m.base, resp.Status), nil)
	}
	return &r, nil
}

// withLogin is a transport that shows the token of a login to one mesh.
type withLogin struct {
	next   http.RoundTripper
	origin string
	logins signon.Logins
	issuer func() (*signon.Client, error)
}

// RoundTrip implements http.RoundTripper.
func (l withLogin) RoundTrip(r *http.Request) (*http.Response, error) {
	if at, err := registry.OriginOf(r.URL.String()); err != nil || at != l.origin || r.Header.Get("Authorization") != "" {
		return l.next.RoundTrip(r)
	}
	issuers, err := l.issuer()
	if err != nil {
		return nil, err
	}
	token, err := l.logins.Token(r.Context(), issuers, l.origin)
	if e, ok := errors.AsType[*parley.Error](err); ok {
		return nil, connectError{e}
	}
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return l.next.RoundTrip(r)
}

// kept wraps a transport so that it shows the login that is kept for the mesh
// at base; ok is false where there is none.
func (p *program) kept(base string, next http.RoundTripper) (_ http.RoundTripper, ok bool, err error) {
	dir, err := signon.DefaultDir(p.variable)
	if err != nil {
		return next, false, nil // no home, so no login
	}
	origin, err := registry.OriginOf(base)
	if err != nil {
		return next, false, usageError{err}
	}
	logins := signon.Logins{Dir: dir}
	switch login, err := logins.Load(origin); {
	case errors.Is(err, signon.ErrNone):
		return next, false, nil
	case err != nil:
		return nil, false, usageError{err}
	default:
		p.hint = "this was asked with the login at " + login.Issuer + ": log in again (parley login), or forget it (parley logout)"
		return withLogin{next, origin, logins, p.issuerClient}, true, nil
	}
}
