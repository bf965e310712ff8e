package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// authFlags are the flags that describe a credential towards an agent.
type authFlags struct {
	bearer, apiKey              bool
	header, query, user, origin string
	secretFile                  string

	oauth2                               bool
	tokenURL, clientID, audience, styled string
	scopes                               []string
	certFile, keyFile, caFile            string
}

func (a *authFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&a.bearer, "bearer", false, "a bearer token")
	flags.BoolVar(&a.apiKey, "api-key", false, "an API key, sent as --header or --query names")
	flags.StringVar(&a.header, "header", "", "the header that takes the API key")
	flags.StringVar(&a.query, "query", "", "the query parameter that takes the API key")
	flags.StringVar(&a.user, "basic", "", "a password for this user")
	flags.StringVar(&a.origin, "origin", "", "scheme://host:port that may get the credential (default: the agent's)")
	flags.StringVar(&a.secretFile, "secret-file", "", "file with the secret, - for the input (default: asked for)")
	flags.BoolVar(&a.oauth2, "oauth2", false, "tokens by OAuth 2 client credentials, which the mesh gets and renews")
	flags.StringVar(&a.tokenURL, "token-url", "", "the token endpoint; the client secret goes nowhere else")
	flags.StringVar(&a.clientID, "client-id", "", "the client's id at the token endpoint")
	flags.StringVar(&a.secretFile, "client-secret-file", "", "the same as --secret-file")
	flags.StringSliceVar(&a.scopes, "scope", nil, "a scope to ask for (repeatable)")
	flags.StringVar(&a.audience, "audience", "", "the audience to ask for")
	flags.StringVar(&a.styled, "auth-style", "", "how the client shows itself: basic or post (default: basic)")
	flags.StringVar(&a.certFile, "client-cert", "", "PEM file with the client certificate; alone, or beside another kind")
	flags.StringVar(&a.keyFile, "client-key", "", "PEM file with its private key, unencrypted")
	flags.StringVar(&a.caFile, "ca", "", "PEM file with CAs to trust beside the system's, for agent and token endpoint")
	cmd.MarkFlagsMutuallyExclusive("bearer", "api-key", "basic", "oauth2")
	cmd.MarkFlagsMutuallyExclusive("secret-file", "client-secret-file")
	cmd.MarkFlagsMutuallyExclusive("header", "query")
}

// credential is what the flags describe, with its secret; nil where they
// describe none.
func (a *authFlags) credential(ctx context.Context, p *program) (*control.NewAuth, error) {
	n := &control.NewAuth{Origin: a.origin}
	what := ""
	switch {
	case a.bearer:
		n.Kind, what = registry.Bearer, "token"
	case a.user != "":
		n.Kind, n.Name, what = registry.Basic, a.user, "password of "+a.user
	case a.apiKey && a.header != "":
		n.Kind, n.In, n.Name, what = registry.APIKey, registry.InHeader, a.header, "API key"
	case a.apiKey && a.query != "":
		n.Kind, n.In, n.Name, what = registry.APIKey, registry.InQuery, a.query, "API key"
	case a.apiKey:
		return nil, usagef("--api-key needs --header NAME or --query NAME: where the agent looks for the key")
	case a.oauth2 && (a.tokenURL == "" || a.clientID == ""):
		return nil, usagef("--oauth2 needs --token-url URL and --client-id ID: where tokens are had, and as whom")
	case a.oauth2:
		n.Kind, n.Name, what = registry.OAuth2, a.clientID, "client secret of "+a.clientID
		n.OAuth2 = &control.OAuth2{TokenURL: a.tokenURL, Scopes: a.scopes, Audience: a.audience, AuthStyle: a.styled}
	case a.certFile != "":
		n.Kind = registry.Certificate
	case a.header != "" || a.query != "" || a.origin != "" || a.secretFile != "" || a.tokenURL != "" || a.clientID != "" || a.keyFile != "":
		return nil, usagef("say which kind of credential it is: %s", kindFlags)
	default:
		return nil, nil
	}
	if err := a.certificate(n); err != nil || n.Kind == registry.Certificate {
		return n, err
	}
	var err error
	if n.Secret, err = p.secret(ctx, what, a.secretFile); err != nil {
		return nil, err
	}
	if n.Secret == "" {
		return nil, usagef("the %s is empty", what)
	}
	return n, nil
}

// kindFlags are the flags of which one says what a credential is.
const kindFlags = "--bearer, --api-key, --basic USER, --oauth2 or --client-cert FILE"

// maxPEM bounds a PEM file, in bytes.
const maxPEM = 64 << 10

// certificate reads the client certificate that the flags name, if any.
func (a *authFlags) certificate(n *control.NewAuth) error {
	if a.certFile == "" && a.keyFile == "" && a.caFile == "" {
		return nil
	}
	if a.certFile == "" || a.keyFile == "" {
		return usagef("a client certificate needs both --client-cert FILE and --client-key FILE")
	}
	n.Certificate = &control.NewCertificate{}
	for _, part := range []struct {
		flag, file string
		into       *string
	}{
		{"client-cert", a.certFile, &n.Certificate.Chain},
		{"client-key", a.keyFile, &n.Certificate.Key},
		{"ca", a.caFile, &n.Certificate.CA},
	} {
		if part.file == "" {
			continue
		}
		raw, err := readFile(part.file, maxPEM)
		if err != nil {
			return usagef("read --%s: %w", part.flag, err)
		}
		*part.into = string(raw)
	}
	return nil
}

func agentAuthCommand(p *program) *cobra.Command {
	var auth authFlags
	var remove bool
	cmd := &cobra.Command{
		Use: "auth NAME", Short: "Store the credential that the mesh shows an agent",
		Long: `Store the credential that the mesh shows an agent. It is kept sealed, goes to the
agent's origin only and is never shown again. It is asked for without echo, or
read from the input or a file: an argument would stay in the shell's history.
With --oauth2 the mesh gets its tokens from the token endpoint and renews them in
time. A client certificate may stand beside any other kind.
Without a kind it is shown what the agent wants and has.`,
		Example: `  parley agent auth billing --bearer
  parley agent auth billing --bearer --secret-file - < token.txt
  parley agent auth search --api-key --header X-API-Key --secret-file key.txt
  parley agent auth archive --basic reader
  parley agent auth billing --oauth2 --token-url https://login.example.com/token --client-id mesh --client-secret-file secret.txt --scope invoices
  parley agent auth ledger --client-cert mesh.pem --client-key mesh.key --ca company-ca.pem
  parley agent auth billing --remove`,
		Args: arguments("NAME"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			name := parley.AgentName(args[0])
			if remove {
				looked, err := c.RemoveAuth(ctx, name)
				return p.showLook(looked, err, "removed the credential of")
			}
			credential, err := auth.credential(ctx, p)
			if err != nil {
				return err
			}
			if credential == nil {
				return p.showAuth(ctx, c, name)
			}
			looked, err := c.SetAuth(ctx, name, *credential)
			return p.showLook(looked, err, "stored the credential of")
		}),
	}
	auth.register(cmd)
	cmd.Flags().BoolVar(&remove, "remove", false, "forget the credential")
	for _, kind := range []string{"bearer", "api-key", "basic", "oauth2", "client-cert"} {
		cmd.MarkFlagsMutuallyExclusive("remove", kind)
	}
	return cmd
}

// agentAuth is what is known of an agent's credential.
type agentAuth struct {
	Agent parley.AgentName `json:"agent"`
	Auth  *control.Auth    `json:"auth"`
	Wants string           `json:"wants,omitempty"`
}

// sentAs is where a credential stands in a request.
func sentAs(a *control.Auth) string {
	switch a.Kind {
	case registry.Bearer:
		return "header Authorization: Bearer"
	case registry.Basic:
		return "header Authorization: Basic, as user " + a.Name
	case registry.OAuth2:
		return "header Authorization: Bearer, with tokens for the client " + a.Name
	case registry.Certificate:
		return "client certificate in the TLS handshake"
	}
	return a.In + " " + a.Name
}

// authFacts are the parts of a credential that only some kinds have.
func (p *program) authFacts(f *facts, a *control.Auth) {
	if q := a.OAuth2; q != nil {
		f.add("tokens from", q.TokenURL)
		f.add("scopes", strings.Join(q.Scopes, " "))
		f.add("audience", q.Audience)
	}
	if x := a.Certificate; x != nil {
		f.add("certificate", x.Subject+", by "+x.Issuer)
		f.add("valid until", p.validity(x))
	}
}

// validity is until when a certificate holds, with a warning where that is soon.
func (p *program) validity(x *control.ClientCertificate) string {
	text := p.moment(x.NotAfter)
	switch left := x.NotAfter.Sub(p.now()); {
	case left < 0:
		text += ": EXPIRED"
	case left < registry.ExpiryNotice:
		text += fmt.Sprintf(": expires in %d days", int(left.Hours()/24))
	}
	return text
}

// showAuth tells what credential an agent has and what it wants.
func (p *program) showAuth(ctx context.Context, c *control.Client, name parley.AgentName) error {
	a, err := c.Agent(ctx, name)
	if err != nil {
		return err
	}
	err = p.show(agentAuth{a.Name, a.Auth, a.Reason}, func(f *facts) {
		f.add("agent", string(a.Name))
		if a.Auth == nil {
			f.add("credential", "none")
		} else {
			f.add("kind", string(a.Auth.Kind))
			f.add("sent as", sentAs(a.Auth))
			f.add("sent to", a.Auth.Origin)
			p.authFacts(f, a.Auth)
			f.add("stored", p.moment(a.Auth.CreatedAt))
		}
		f.add("status", string(a.Status))
		f.add("because", a.Reason)
		if a.CheckError != a.Reason {
			f.add("found", a.CheckError)
		}
		for _, warning := range a.Warnings {
			f.add("warning", warning)
		}
	})
	p.remark("set it with " + kindFlags)
	return err
}
