package cli

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// level is how a check came out.
type level string

const (
	levelOK      level = "ok"
	levelWarning level = "warning"
	levelFailed  level = "failed"
)

// finding is what one check found.
type finding struct {
	Check  string `json:"check"`
	Level  level  `json:"level"`
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"`
}

// diagnosis collects findings and prints each as it is made.
type diagnosis struct {
	p      *program
	style  style
	failed int
	err    error // of printing
}

func (d *diagnosis) ok(check, format string, args ...any) {
	d.add(finding{check, levelOK, fmt.Sprintf(format, args...), ""})
}

func (d *diagnosis) warn(check, advice, format string, args ...any) {
	d.add(finding{check, levelWarning, fmt.Sprintf(format, args...), advice})
}

func (d *diagnosis) fail(check, advice, format string, args ...any) {
	d.failed++
	d.add(finding{check, levelFailed, fmt.Sprintf(format, args...), advice})
}

func (d *diagnosis) add(f finding) {
	if d.err != nil {
		return
	}
	if d.p.json() {
		d.err = d.p.line(f)
		return
	}
	mark := map[level]string{levelOK: d.style.good("ok     "), levelWarning: "warning", levelFailed: d.style.bad("failed ")}[f.Level]
	text := cleanLine(f.Found)
	if f.Advice != "" {
		text += "\n" + strings.Repeat(" ", 22) + "→ " + cleanLine(f.Advice)
	}
	d.err = d.p.print("%s  %-11s  %s\n", mark, f.Check, text)
}

func doctorCommand(p *program) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check the mesh and its surroundings, and say what to do",
		Long: `Check configuration, data directory, keys, disk, ports, clock, store and agents, and
say what to do about what is wrong. It changes nothing, but lets the mesh look at
its agents. Without a running mesh the database is read through, which takes about a
second per GiB, and what else can be seen from outside.`,
		Example: `  parley doctor
  parley doctor --config parley.yaml
  parley doctor --server https://mesh.example.com --output json`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return p.doctor(cmd, file) },
	}
	configFlags(cmd, &file)
	return cmd
}

func (p *program) doctor(cmd *cobra.Command, file string) error {
	d := &diagnosis{p: p, style: p.styleOf(p.Out)}
	ctx := cmd.Context()
	m, err := p.doctorMesh(cmd, file, d)
	if err != nil {
		return err
	}
	if m != nil {
		d.checkMesh(ctx, m)
	}
	switch {
	case d.err != nil:
		return d.err
	case ctx.Err() != nil:
		return ctx.Err()
	case d.failed > 0:
		return checksFailed(d.failed)
	}
	return nil
}

// checksFailed is how a diagnosis ends that found something wrong.
type checksFailed int

// Error tells how many checks failed; each was told in full before.
func (n checksFailed) Error() string {
	if n == 1 {
		return "1 check failed"
	}
	return fmt.Sprintf("%d checks failed", int(n))
}

// doctorMesh checks what is local and finds the mesh to ask; nil where none is
// running here.
func (p *program) doctorMesh(cmd *cobra.Command, file string, d *diagnosis) (*mesh, error) {
	if p.flags.server != "" || p.variable("PARLEY_SERVER") != "" {
		return p.mesh()
	}
	cfg, err := p.loadConfig(cmd, file)
	if err != nil {
		d.fail("config", "mend the configuration; docs/config.md lists every key", "%s", oneLine(err))
		return nil, nil
	}
	d.ok("config", "valid; environment %s, data in %s (from: %s)", cfg.Environment, cfg.Data, cfg.Origin("data"))
	p.flags.data = cfg.Data
	m, err := p.localMesh()
	if err != nil {
		return nil, err
	}
	d.checkData(cfg)
	running := m.answers(cmd.Context())
	if !running {
		d.warn("mesh", "start it: parley serve", "no mesh answers at %s", m.socket)
		d.checkDatabase(cmd.Context(), cfg)
		d.checkPorts(cmd.Context(), cfg)
		return nil, nil
	}
	return m, nil
}

// connectTime bounds a look whether something answers.
const connectTime = 3 * time.Second

// answers reports whether something accepts connections at the mesh's socket.
func (m *mesh) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", m.socket)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

// checkPorts looks whether a mesh could listen where it is to.
func (d *diagnosis) checkPorts(ctx context.Context, cfg *config.Config) {
	for _, at := range []struct{ key, address string }{
		{"listen", cfg.Listen}, {"control_listen", cfg.ControlListen}, {"grpc_listen", cfg.GRPCListen}, {"ops_listen", cfg.OpsListen},
	} {
		if at.address == "" {
			continue
		}
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", at.address)
		if err != nil {
			d.fail("port", "free the address, or choose another with --"+strings.ReplaceAll(at.key, "_", "-"), "%s cannot be had for %s: %v", at.address, at.key, innermost(err))
			continue
		}
		if err := l.Close(); err != nil {
			d.warn("port", "", "%s: %v", at.address, err)
			continue
		}
		d.ok("port", "%s is free for %s", at.address, at.key)
	}
}

// checkMesh asks the running mesh how it is.
func (d *diagnosis) checkMesh(ctx context.Context, m *mesh) {
	timed := &clockReader{next: patient{d.p, m.http, "the mesh"}}
	c, err := control.NewClient(&http.Client{Transport: timed}, m.base, m.key)
	if err != nil {
		d.fail("mesh", "", "%s", oneLine(err))
		return
	}
	defer c.Close()
	status, err := c.Status(ctx)
	if err != nil {
		advice := ""
		if kind := kindOf(err); kind == parley.Unauthorized || kind == parley.Denied {
			advice = "use a key of an admin or operator: PARLEY_KEY or --key-file"
			if kind == parley.Denied && m.slip() != "" {
				advice = m.slip()
			}
			if d.p.hint != "" {
				advice += "; " + d.p.hint
			}
		}
		d.fail("mesh", advice, "%s", oneLine(err))
		return
	}
	d.ok("mesh", "%s, version %s, environment %s, up for %s, answers at %s", status.MeshID, status.Version, status.Environment, d.p.age(status.Started), status.Addresses.Public)
	d.checkClock(timed)
	d.checkStatus(status)
	if m.socket == "" { // else it was looked at from here
		d.checkFree(status.Store.FreeBytes)
	}
	if !status.Store.Healthy {
		d.warn("agents", "mend the store first", "not looked at: what is seen of them cannot be written down")
		return
	}
	d.checkAgents(ctx, c)
}

// clockReader notes how far the other side's clock is away.
type clockReader struct {
	next http.RoundTripper
	away time.Duration
	told bool
}

// RoundTrip implements http.RoundTripper.
func (c *clockReader) RoundTrip(r *http.Request) (*http.Response, error) {
	start := time.Now()
	resp, err := c.next.RoundTrip(r)
	if err != nil || c.told {
		return resp, err
	}
	if there, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		// The header counts whole seconds; what was asked in the middle of one
		// is at most half a second off.
		here := start.Add(time.Since(start) / 2)
		c.away, c.told = there.Add(500*time.Millisecond).Sub(here), true
	}
	return resp, nil
}

// Bounds of what the clock may be off by, and of the years it may show.
const (
	clockTolerance = 5 * time.Second
	firstYear      = 2026 // no clock that is right is behind this program
	lastYear       = 2100
)

func (d *diagnosis) checkClock(c *clockReader) {
	now := d.p.now()
	switch {
	case now.Year() < firstYear || now.Year() > lastYear:
		d.fail("clock", "set the clock; keys and deadlines depend on it", "it is said to be %s", now.Format(time.RFC3339))
	case c.told && c.away.Abs() > clockTolerance:
		d.warn("clock", "let both machines take their time from the same server (NTP)", "the mesh's clock is %s away from this one", c.away.Round(time.Second))
	default:
		d.ok("clock", "%s", now.UTC().Format(time.RFC3339))
	}
}

// Bounds of free disk, in bytes.
const (
	littleDisk = 1 << 30
	noDisk     = 64 << 20
)

func (d *diagnosis) checkStatus(s control.Status) {
	st := s.Store
	if st.Healthy {
		d.ok("store", "%s, %s, %s in use", st.Kind, st.Durability, sizeText(st.SizeBytes))
	} else {
		d.fail("store", "see the log of parley serve", "%s: %s", st.Kind, st.Problem)
	}
	if n := s.AuthFailures.Total; n > 0 {
		var reasons []string
		for _, r := range s.AuthFailures.Reasons {
			reasons = append(reasons, fmt.Sprintf("%s %d", r.Reason, r.Count))
		}
		d.warn("callers", failuresAdvice(s.AuthFailures.Reasons), "%d times a caller could not be identified since the start: %s", n, strings.Join(reasons, ", "))
	}
}

// failuresAdvice says where to look about callers that could not be identified,
// by what they were refused for.
func failuresAdvice(reasons []control.ReasonCount) string {
	var advice []string
	for _, r := range reasons {
		text := "see what tokens are refused for: docs/sign-on.md"
		switch r.Reason {
		case "no_credential", "unsupported_scheme", "malformed", "unknown_key", "expired", "revoked", "limited":
			text = "see which keys are valid: parley key list"
		case "certificate", "certificate_name", "certificate_unlinked", "two_principals":
			text = "see which client certificates are taken: docs/mtls.md"
		}
		if !slices.Contains(advice, text) {
			advice = append(advice, text)
		}
	}
	return strings.Join(advice, "; ")
}

func (d *diagnosis) checkFree(free int64) {
	switch {
	case free <= 0:
		d.fail("disk", "make room: calls that cannot be recorded are refused", "full")
	case free < noDisk:
		d.fail("disk", "make room: once nothing is left, calls are refused", "%s free", sizeText(free))
	case free < littleDisk:
		d.warn("disk", "make room, or shorten retention.* in the configuration", "%s free", sizeText(free))
	default:
		d.ok("disk", "%s free", sizeText(free))
	}
}

// sizeText is a number of bytes as a person reads it.
func sizeText(bytes int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	value, unit := float64(bytes), 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}

// checkAgents lets the mesh look at each of its agents.
func (d *diagnosis) checkAgents(ctx context.Context, c *control.Client) {
	agents, err := allAgents(ctx, c, "")
	if err != nil {
		d.fail("agents", "", "%s", oneLine(err))
		return
	}
	if len(agents) == 0 {
		d.ok("agents", "none registered yet; add one: parley agent add NAME URL")
		return
	}
	for _, a := range agents {
		if ctx.Err() != nil {
			return
		}
		if !d.checkAgent(ctx, c, a) {
			return
		}
	}
}

// checkAgent lets the mesh look at one agent, of which known is what the last look
// found; false where the mesh itself failed, which says nothing about agents.
func (d *diagnosis) checkAgent(ctx context.Context, c *control.Client, known control.Agent) bool {
	name := known.Name
	looked, err := c.RefreshAgent(ctx, name)
	switch kind := kindOf(err); {
	case err != nil && (kind == parley.Unavailable || kind == parley.Internal):
		d.fail("store", "mend that first; agents cannot be looked at before", "the mesh cannot write down what it sees: %s", oneLine(err))
		return false
	case kind == parley.Denied:
		// Whoever asks may see the agent and not have it looked at, which is
		// nothing about the agent.
		d.judge(known, ", as last seen: a new look needs more rights")
		return true
	case err != nil:
		d.fail("agent", fmt.Sprintf("see that it runs; look again with: parley agent refresh %s", name), "%s: %s", name, oneLine(err))
		return true
	case looked.Agent == nil:
		return true
	}
	d.judge(*looked.Agent, "")
	d.checkInstances(ctx, c, name)
	d.checkCertificate(ctx, c, name)
	return true
}

// judge tells how an agent is; seen is said of one that is well.
func (d *diagnosis) judge(a control.Agent, seen string) {
	name := a.Name
	switch used, ok := inUse(a); {
	case a.Status == "suspended":
		d.warn("agent", fmt.Sprintf("take it back with: parley agent resume %s", name), "%s is suspended: %s", name, a.Reason)
	case a.CheckError != "":
		d.fail("agent", fmt.Sprintf("look at it: parley agent show %s", name), "%s: %s", name, a.CheckError)
	case !ok:
		d.fail("agent", fmt.Sprintf("look at it: parley agent show %s", name), "%s is %s: %s", name, a.Status, a.Reason)
	case a.Pending != nil:
		d.warn("agent", fmt.Sprintf("look at it with parley agent show %s, take it with parley agent approve %s", name, name), "%s: a newer card waits: %s", name, a.Pending.Why)
	default:
		d.ok("agent", "%s answers at %s (%s %s)%s", name, used.URL, used.Speaks(), used.SpeaksVersion(), seen)
	}
}

// checkInstances tells of an agent's further addresses that get no work. They
// were looked at together with the agent.
func (d *diagnosis) checkInstances(ctx context.Context, c *control.Client, name parley.AgentName) {
	page, err := c.Instances(ctx, name)
	if err != nil || len(page.Items) < 2 {
		return // the first is the agent itself, which was told of before
	}
	for _, i := range page.Items[1:] {
		advice := fmt.Sprintf("see that it runs, or take it out: parley agent instance rm %s %s", name, i.ID)
		switch {
		case i.Status == registry.InstanceDraining:
			d.ok("instance", "%s of agent %s drains: it is forgotten once its tasks are final", i.ID, name)
		case i.CheckError != "":
			d.warn("instance", advice, "%s of agent %s gets no new work: %s", i.ID, name, i.CheckError)
		case !i.Healthy:
			d.warn("instance", advice, "%s of agent %s gets no new work: it is %s", i.ID, name, i.Status)
		default:
			d.ok("instance", "%s of agent %s answers at %s (%s)", i.ID, name, i.Address, i.Binding)
		}
	}
}

// checkCertificate tells of a client certificate towards an agent that comes to
// its end.
func (d *diagnosis) checkCertificate(ctx context.Context, c *control.Client, name parley.AgentName) {
	a, err := c.Agent(ctx, name)
	if err != nil || a.Auth == nil || a.Auth.Certificate == nil {
		return // what is wrong with the agent itself was told before
	}
	advice := "replace it: " + registry.AuthCommand(name, registry.Credential{Kind: registry.Certificate})
	switch x, left := a.Auth.Certificate, a.Auth.Certificate.NotAfter.Sub(d.p.now()); {
	case left <= 0:
		d.fail("certificate", advice, "the one shown to agent %s expired %s", name, d.p.moment(x.NotAfter))
	case left < registry.ExpiryNotice:
		d.warn("certificate", advice, "the one shown to agent %s expires %s", name, d.p.moment(x.NotAfter))
	default:
		d.ok("certificate", "the one shown to agent %s is valid until %s", name, d.p.moment(x.NotAfter))
	}
}
