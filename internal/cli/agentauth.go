package cli

import (
	"context"

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
	cmd.MarkFlagsMutuallyExclusive("bearer", "api-key", "basic")
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
	case a.header != "" || a.query != "" || a.origin != "" || a.secretFile != "":
		return nil, usagef("say which kind of credential it is: --bearer, --api-key or --basic USER")
	default:
		return nil, nil
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

func agentAuthCommand(p *program) *cobra.Command {
	var auth authFlags
	var remove bool
	cmd := &cobra.Command{
		Use: "auth NAME", Short: "Store the credential that the mesh shows an agent",
		Long: `Store the credential that the mesh shows an agent. It is kept sealed, goes to the
agent's origin only and is never shown again. It is asked for without echo, or
read from the input or a file: an argument would stay in the shell's history.
Without a kind it is shown what the agent wants and has.`,
		Example: `  parley agent auth billing --bearer
  parley agent auth billing --bearer --secret-file - < token.txt
  parley agent auth search --api-key --header X-API-Key --secret-file key.txt
  parley agent auth archive --basic reader
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
	for _, kind := range []string{"bearer", "api-key", "basic"} {
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
	}
	return a.In + " " + a.Name
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
			f.add("stored", p.moment(a.Auth.CreatedAt))
		}
		f.add("status", string(a.Status))
		f.add("because", a.Reason)
	})
	p.remark("set it with --bearer, --api-key or --basic USER")
	return err
}
