package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/webhook"
)

// listening is one listen command.
type listening struct{ address, path, public, issuer, token string }

func pushListenCommand(p *program) *cobra.Command {
	var l listening
	cmd := &cobra.Command{
		Use: "listen", Short: "Receive push notifications here, verify them and print each",
		Long: `Receive push notifications here, verify them and print each as it arrives: what
is not proven to come from the mesh is refused, and told on the error stream. The
address must be one that the mesh may reach; see network.allow.`,
		Example: `  parley push listen
  parley send writer "a poem" --no-wait --push http://127.0.0.1:7480/
  parley push listen --listen 0.0.0.0:8080 --url https://hooks.example.com/parley --output json`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return p.listen(cmd.Context(), &l) },
	}
	flags := cmd.Flags()
	flags.StringVar(&l.address, "listen", "127.0.0.1:7480", "address to listen at, host:port")
	flags.StringVar(&l.public, "url", "", "address under which the mesh reaches it, exactly as it is given to send --push; default: http:// with --listen and /")
	flags.StringVar(&l.issuer, "issuer", "", "public address of the mesh, whose keys are trusted; default: --server, or the mesh on this machine")
	flags.StringVar(&l.token, "push-token", "", "token that every delivery must carry, as given to send --push-token")
	return cmd
}

// listen serves until ctx ends.
func (p *program) listen(ctx context.Context, l *listening) error {
	issuer, err := p.issuer(ctx, l.issuer)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", l.address)
	if err != nil {
		return usagef("--listen %s: %w", l.address, err)
	}
	defer listener.Close()
	public := l.public
	if public == "" {
		public = "http://" + listener.Addr().String() + "/"
	}
	verifier, err := webhook.New(webhook.Config{
		Issuer: issuer, Audience: public, Token: l.token,
		Refused: func(r *http.Request, err error) { p.remark("refused a request from %s: %v", r.RemoteAddr, err) },
	})
	if err != nil {
		return usagef("%w: see --url and --issuer", err)
	}
	server := &http.Server{
		Handler:           verifier.Handler(func(_ context.Context, d *webhook.Delivery) error { return p.received(d) }),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, MaxHeaderBytes: 64 << 10,
	}
	p.remark("receiving at %s what %s pushes", public, issuer)
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // ends Serve
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// issuer is the mesh's public address: as given, the server's, or that of the
// mesh on this machine.
func (p *program) issuer(ctx context.Context, given string) (string, error) {
	if given != "" {
		return strings.TrimSuffix(given, "/"), nil
	}
	c, err := p.client()
	if err != nil {
		return "", err
	}
	defer c.Close()
	status, err := c.Status(ctx)
	if err != nil {
		return "", err
	}
	if status.Addresses.Public == "" {
		return "", parley.E("cli.listen", parley.Unavailable, "", "the mesh does not tell its public address: give it with --issuer", nil)
	}
	return status.Addresses.Public, nil
}

// receivedPush is one delivery as JSON output shows it.
type receivedPush struct {
	ID    string          `json:"id"`
	Task  string          `json:"task"`
	Sent  time.Time       `json:"sent"`
	Event json.RawMessage `json:"event"`
}

// received prints one delivery.
func (p *program) received(d *webhook.Delivery) error {
	if p.json() {
		return p.line(receivedPush{d.ID, d.TaskID, d.Sent, d.Body})
	}
	return p.print("%s\n", cleanLine(fmt.Sprintf("%s  %s  %s  %s", d.Sent.Local().Format(time.TimeOnly), d.ID, d.TaskID, eventText(d.Body))))
}

// eventText says in a few words what an event tells.
func eventText(body []byte) string {
	var e a2a.StreamResponse
	if err := json.Unmarshal(body, &e); err != nil {
		return string(body)
	}
	switch {
	case e.Task != nil:
		return "task " + stateText(e.Task.Status.State)
	case e.StatusUpdate != nil:
		return "status " + stateText(e.StatusUpdate.Status.State)
	case e.ArtifactUpdate != nil:
		return "artifact " + e.ArtifactUpdate.Artifact.ArtifactID
	case e.Message != nil:
		return "message " + e.Message.MessageID
	}
	return string(body)
}
