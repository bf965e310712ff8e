package config

import (
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// key is one line of the configuration: where it stands in the file, the field
// it sets, and what a reader must know about it.
type key struct {
	path  string // dotted: "limits.call_deadline"
	value value
	flag  string // command line flag without dashes; empty: none
	doc   string // full sentences, without the range and default, which value knows
}

// env returns the name of the environment variable that sets the key.
func (k key) env() string { return envPrefix + envName(k.path) }

const maxDuration = 3650 * day

// keys binds every key to its field in c. Order is the order of print-outs and
// of the reference page; keys of one section stand together.
func (c *Config) keys() []key {
	var all []key
	all = append(all, c.processKeys()...)
	all = append(all, c.edgeKeys()...)
	all = append(all, c.limitKeys()...)
	return append(all, c.upkeepKeys()...)
}

func (c *Config) processKeys() []key {
	return []key{
		{"listen", addr(&c.Listen), "listen", "Address of the edge and, unless `control_listen` is set, of the control API. Port 0 takes a free port."},
		{"control_listen", optionalAddr(&c.ControlListen), "control-listen", "Address of the control API alone. Empty: it is served on `listen`."},
		{"grpc_listen", optionalAddr(&c.GRPCListen), "grpc-listen", "Address of the edge over gRPC. Empty: not served."},
		{"ops_listen", optionalAddr(&c.OpsListen), "ops-listen", "Address of metrics, health and profiling. Empty: not served."},
		{"public_url", baseURL(&c.PublicURL), "public-url", "Address under which callers reach the edge, as cards print it. Empty: made from `listen`, which must then name one address."},
		{"grpc_public_url", optionalAddr(&c.GRPCPublicURL), "", "The `host:port` under which callers reach gRPC, as cards print it. With a host that begins with `*.`, the agent's name stands in the place of the star, which callers of A2A 0.3 need. Empty: the host of `public_url` with the port of `grpc_listen`."},
		{"data", path(&c.Data, "$XDG_DATA_HOME/parley"), "data", "Folder of the store, keys and the local socket. Without XDG_DATA_HOME: `~/.local/share/parley`."},
		{"store", &storeValue{&c.Store}, "store", "Where state is kept: SQLite in `data`, or PostgreSQL, which several replicas may share. The address takes what libpq takes, several servers too; its password is never printed. On PostgreSQL `data` still holds this process's own keys and socket, and `master_key` must be the same for all replicas."},
		{"durability", choice(&c.Durability, DurabilityStrict, DurabilityRelaxed), "durability", "`strict`: a call is on disk before it has effects. `relaxed`: with the next batch, so a crash may lose the last milliseconds."},
		{"environment", choice(&c.Environment, parley.Environments...), "environment", "The stage this process serves. Part of every identity."},
		{"master_key", &secretValue{p: &c.MasterKey}, "", "The key under which stored secrets are sealed. Empty: the file `master.key` in `data`, made at the first start."},
		{"cards", choice(&c.Cards, CardsPublic, CardsAuthenticated), "", "Who may read well-known agent cards."},
		{"extension_base", baseURL(&c.ExtensionBase), "", "What the URIs of the mesh's own extensions begin with. It need not answer. Changing it changes every card."},
	}
}

func (c *Config) edgeKeys() []key {
	return []key{
		{"network.allow", prefixes(&c.Network.Allow, true), "allow-network", "Private ranges in which agents and webhooks may live, on any port; plain http is allowed only there. While `listen` is loopback and `environment` is dev, loopback is included."},
		{"network.deny", prefixes(&c.Network.Deny, false), "", "Ranges never connected to, whatever `network.allow` says. Add your own public and cluster ranges. Setting it replaces the default."},
		{"tls.cert", path(&c.TLS.Cert, ""), "tls-cert", "PEM file with the server's certificate chain. Together with `tls.key`."},
		{"tls.key", path(&c.TLS.Key, ""), "tls-key", "PEM file with the private key of `tls.cert`."},
		{"tls.client_ca", path(&c.TLS.ClientCA, ""), "", "PEM file with the authorities whose client certificates identify callers; see [mtls](mtls.md). Empty: client certificates are not asked for."},
		{"tls.client_auth", choice(&c.TLS.ClientAuth, ClientAuthNone, ClientAuthRequest, ClientAuthRequire), "", "With `tls.client_ca`. `none`: client certificates are not asked for. `request`: who has none shows another credential. `require`: nobody connects without one."},
		{"tls.crl", path(&c.TLS.CRL, ""), "", "Revocation lists of those authorities: a file, or a folder of them; DER, or PEM with one or several lists. Empty: revocation is not looked at."},
		{"tls.crl_check", choice(&c.TLS.CRLCheck, CRLStrict, CRLLenient), "", "With `tls.crl`. What happens to a client certificate where no current list tells whether it, or an authority between it and the root, is revoked. `strict`: it is refused. `lenient`: it is taken."},
		{"tls.reload", duration(&c.TLS.Reload, 100*time.Millisecond, time.Hour), "", "Pause between two looks at the files of `tls`, which are read again when they have changed; SIGHUP asks for it at once."},
		{"tls.hsts", duration(&c.TLS.HSTS, 0, maxDuration), "", "How long browsers are told to come over TLS only (the header Strict-Transport-Security, sent over TLS). 0s: they are not told."},
		{"cors.origins", list(&c.CORS.Origins, "origin", checkOrigin), "", "Web origins whose pages may call the edge. Empty: none."},
		{"auth.anonymous", list(&c.Auth.Anonymous, "agent", checkAgentName), "", "Agents that may be called without a credential. All who do share one identity: whoever knows the id of a task of theirs can read, continue and cancel it."},
		{"auth.failures_per_minute", count(&c.Auth.FailuresPerMinute, 1, 100_000), "", "Failed authentications one client address may make per minute; beyond it is refused unheard."},
		{"auth.failure_burst", count(&c.Auth.FailureBurst, 1, 100_000), "", "Failed authentications one client address may make at once."},
		{"auth.spiffe.trust_domains", list(&c.Auth.SPIFFE.TrustDomains, "trust domain", checkTrustDomain), "", "SPIFFE trust domains whose ids in client certificates identify callers. Empty: no SPIFFE id does."},
		{"auth.issuers", &issuersValue{&c.Auth.Issuers}, "", "OpenID providers and OAuth authorization servers whose access tokens identify callers; see [below](#issuers) and [sign-on](sign-on.md). In the environment: the same list as YAML text."},
		{"a2a.strict_version", &boolValue{&c.A2A.StrictVersion}, "", "Refuse calls without the A2A-Version header instead of recognising unmistakable 1.0 calls."},
	}
}

func (c *Config) limitKeys() []key {
	l := &c.Limits
	return []key{
		{"postgres.connections", count(&c.Postgres.Connections, 1, 1000), "", "Connections to PostgreSQL that read at once, of each replica; four more write, listen and keep it in step."},
		{"postgres.connect_timeout", duration(&c.Postgres.ConnectTimeout, 100*time.Millisecond, time.Minute), "", "How long connecting to one PostgreSQL server may take."},
		{"postgres.statement_timeout", duration(&c.Postgres.StatementTimeout, 100*time.Millisecond, 10*time.Minute), "", "How long a read, or a transaction that writes, may take on PostgreSQL."},
		{"postgres.lease", duration(&c.Postgres.Lease, 500*time.Millisecond, 10*time.Minute), "", "After how long without a sign of life a replica counts as dead and another takes up its open calls. It is renewed three times as often."},
		{"limits.request_body", size(&l.RequestBody, KiB, GiB), "", "Largest body of one request from a caller."},
		{"limits.response_body", size(&l.ResponseBody, KiB, GiB), "", "Largest body of one unary response from an agent."},
		{"limits.stream_event", size(&l.StreamEvent, KiB, GiB), "", "Largest single event of a stream from an agent."},
		{"limits.stream_buffer", size(&l.StreamBuffer, 64*KiB, GiB), "", "How far a caller may be behind with the events of its stream, in bytes, before the stream is cut; it can go on with Last-Event-ID."},
		{"limits.task_snapshot", size(&l.TaskSnapshot, KiB, GiB), "", "Largest task snapshot that is kept with a call; a larger one is left out."},
		{"limits.card", size(&l.Card, KiB, MiB), "", "Largest agent card that is fetched."},
		{"limits.header", size(&l.Header, 4*KiB, MiB), "", "Largest header block of a request or a response."},
		{"limits.json_depth", count(&l.JSONDepth, 8, 1000), "", "Deepest nesting of JSON from outside."},
		{"limits.call_deadline", duration(&l.CallDeadline, time.Second, 30*day), "", "How long a raw call may stay open before it counts as timed out."},
		{"limits.unary_timeout", duration(&l.UnaryTimeout, time.Second, day), "", "How long a unary request to an agent may take in all."},
		{"limits.first_byte_timeout", duration(&l.FirstByteTimeout, time.Second, day), "", "How long a streaming request to an agent may wait for its response to begin."},
		{"limits.dial_timeout", duration(&l.DialTimeout, 100*time.Millisecond, time.Minute), "", "How long connecting to an agent may take."},
		{"limits.header_timeout", duration(&l.HeaderTimeout, time.Second, 10*time.Minute), "", "How long a caller may take to send its request headers."},
		{"limits.body_timeout", duration(&l.BodyTimeout, time.Second, time.Hour), "", "How long a caller may take to send its request body."},
		{"limits.idle_timeout", duration(&l.IdleTimeout, time.Second, day), "", "How long a connection without a request is kept open."},
		{"limits.stream_write_timeout", duration(&l.StreamWriteTimeout, time.Second, time.Hour), "", "How long a caller may take to accept one event of a stream."},
		{"limits.stream_keepalive", duration(&l.StreamKeepalive, time.Second, 10*time.Minute), "", "Pause after which a silent stream carries a comment line."},
		{"limits.shutdown_timeout", duration(&l.ShutdownTimeout, time.Second, time.Hour), "", "How long a stop may take, all steps together."},
		{"limits.connections", count(&l.Connections, 1, 1_000_000), "", "Connections held open to callers; further ones wait."},
		{"limits.connections_per_address", count(&l.ConnectionsPerAddress, 1, 1_000_000), "", "Connections one client address (IPv6: one /64) may hold open at each listener; further ones are closed at once. A proxy before the mesh is one address."},
		{"limits.streams_per_connection", count(&l.StreamsPerConnection, 1, 10_000), "", "Requests under way at once over one HTTP/2 connection."},
		{"limits.rate_per_principal", count(&l.RatePerPrincipal, 1, 1_000_000), "", "Requests one principal may make per second, over all its keys; beyond it they are refused with the time to wait."},
		{"limits.burst_per_principal", count(&l.BurstPerPrincipal, 1, 1_000_000), "", "Requests one principal may make at once after a pause."},
		{"limits.rate_per_address", count(&l.RatePerAddress, 1, 1_000_000), "", "Requests without a credential that one client address (IPv6: one /64) may make per second: cards, anonymous calls, and calls that lack a credential."},
		{"limits.burst_per_address", count(&l.BurstPerAddress, 1, 1_000_000), "", "Requests without a credential that one client address may make at once after a pause."},
		{"limits.streams", count(&l.Streams, 1, 1_000_000), "", "Streams open at once; further ones are refused."},
		{"limits.streams_per_principal", count(&l.StreamsPerPrincipal, 1, 1_000_000), "", "Streams one principal may hold open at once."},
		{"limits.streams_detached", count(&l.StreamsDetached, 0, 1_000_000), "", "Streams of agents read on at once after all their callers have left; the tasks of further ones are asked about instead."},
		{"limits.stream_recovery", duration(&l.StreamRecovery, time.Second, day), "", "How long an agent whose stream broke may say nothing of the task before the callers' streams end with an error."},
		{"limits.idle_per_agent", count(&l.IdlePerAgent, 1, 100_000), "", "Idle connections kept to one agent."},
		{"limits.list_refresh", count(&l.ListRefresh, 0, 1000), "", "Unfinished tasks one ListTasks asks the agent about."},
		{"limits.list_refresh_timeout", duration(&l.ListRefreshTimeout, 10*time.Millisecond, time.Minute), "", "How long a ListTasks waits for those answers."},
	}
}

func (c *Config) upkeepKeys() []key {
	return []key{
		{"retention.calls", duration(&c.Retention.Calls, time.Hour, maxDuration), "", "How long finished calls are kept."},
		{"retention.events", duration(&c.Retention.Events, time.Hour, maxDuration), "", "How long events are kept."},
		{"retention.tasks", duration(&c.Retention.Tasks, time.Hour, maxDuration), "", "How long finished tasks are kept; others four times as long, and 30d at least."},
		{"retention.journal", duration(&c.Retention.Journal, time.Minute, maxDuration), "", "How long the events of tasks are kept, from which streams go on after an interruption."},
		{"retention.journal_events", count(&c.Retention.JournalEvents, 16, 10_000_000), "", "Events kept of one task; the oldest go first."},
		{"retention.journal_size", size(&c.Retention.JournalSize, 64*KiB, 64*GiB), "", "Bytes of events kept of one task; the oldest go first."},
		{"retention.messages", duration(&c.Retention.Messages, 0, 30*day), "", "How long the ids of messages are remembered: one that is sent again within it is answered with what became of the first, and not worked on twice. Those of open calls are remembered longer. 0: not at all, for callers that give many messages the same id."},
		{"retention.dead_letters", duration(&c.Retention.DeadLetters, time.Hour, maxDuration), "", "How long pushes that could not be delivered are kept; see [push](push.md)."},
		{"retention.sweep", duration(&c.Retention.Sweep, time.Second, day), "", "Pause between two removals of what is past its time."},
		{"agents.refresh", duration(&c.Agents.Refresh, time.Second, 30*day), "", "Pause between two fetches of an agent's card."},
		{"agents.probe_timeout", duration(&c.Agents.ProbeTimeout, 100*time.Millisecond, time.Minute), "", "How long one request of a binding probe may take."},
		{"agents.key_providers", list(&c.Agents.KeyProviders, "origin", checkOrigin), "", "Origins whose key sets may verify the signature of any agent's card, where the card names them (`jku`). Without being listed only a card's own origin counts; see [signatures](signatures.md)."},
		{"push.relay", &boolValue{&c.Push.Relay}, "", "Whether callers may have themselves told of their tasks by push notifications, of every agent. See [push](push.md)."},
		{"push.callbacks", &boolValue{&c.Push.Callbacks}, "", "Whether agents that can push are asked to push to the mesh. Without it, and where an agent cannot, the mesh asks for the tasks by itself, at the pace of `watch`."},
		{"push.callback_url", baseURL(&c.Push.CallbackURL), "", "Address under which agents reach the edge, for their pushes to `/push/`. Empty: `public_url`, or what stands in for it."},
		{"push.per_task", count(&c.Push.PerTask, 1, 1000), "", "Push notification configs one task may have."},
		{"push.per_principal", count(&c.Push.PerPrincipal, 1, 1_000_000), "", "Push notification configs one principal may have for tasks that are not final."},
		{"push.keep", duration(&c.Push.Keep, time.Second, 30*day), "", "How long a push notification config can still be read once its task is final and all is delivered."},
		{"push.timeout", duration(&c.Push.Timeout, time.Second, 30*time.Second), "", "How long one attempt to deliver a push may take; A2A asks for 10 to 30 seconds."},
		{"push.give_up", duration(&c.Push.GiveUp, time.Second, 30*day), "", "How long after an event its delivery is tried before it becomes a dead letter."},
		{"push.retry_first", duration(&c.Push.RetryFirst, 100*time.Millisecond, time.Hour), "", "Pause after a failed attempt, doubled after each; up to a half is taken off by chance."},
		{"push.retry_max", duration(&c.Push.RetryMax, 100*time.Millisecond, day), "", "Longest such pause, unless the receiver asks for a longer one."},
		{"push.concurrent", count(&c.Push.Concurrent, 1, 10_000), "", "Attempts under way at once, of each replica. No principal has more than a quarter of them, and hosts that keep attempts waiting have half at most."},
		{"push.per_host", count(&c.Push.PerHost, 1, 1000), "", "Attempts under way at once at one host."},
		{"keys.rotation", duration(&c.Keys.Rotation, time.Hour, maxDuration), "", "Age at which a key with which the mesh signs is replaced; see [keys](keys.md)."},
		{"keys.overlap", duration(&c.Keys.Overlap, time.Hour, maxDuration), "", "How long a replaced key stays published at `/.well-known/jwks.json`: longer than anybody may keep what it has signed."},
		{"watch.first", duration(&c.Watch.First, 10*time.Millisecond, time.Hour), "", "Pause before the mesh first asks about a task nobody watches; doubled after each question."},
		{"watch.max", duration(&c.Watch.Max, 10*time.Millisecond, day), "", "Longest such pause."},
		{"watch.concurrent", count(&c.Watch.Concurrent, 1, 1000), "", "Such questions under way at once."},
		{"log.level", choice(&c.Log.Level, LogDebug, LogInfo, LogWarn, LogError), "log-level", "Least severe level that is logged."},
		{"log.format", choice(&c.Log.Format, LogText, LogJSON), "log-format", "Form of log lines."},
		{"telemetry.traces_endpoint", baseURL(&c.Telemetry.TracesEndpoint), "", "Collector that takes OTLP over HTTP. Empty: traces are not exported."},
		{"telemetry.traces_headers", &secretValue{p: &c.Telemetry.TracesHeaders}, "", "Headers for the collector, one `Name: value` a line."},
		{"telemetry.metrics_endpoint", baseURL(&c.Telemetry.MetricsEndpoint), "", "Collector that takes metrics as OTLP over HTTP. Empty: they are only served, at /metrics of ops_listen."},
		{"telemetry.metrics_headers", &secretValue{p: &c.Telemetry.MetricsHeaders}, "", "Headers for that collector, one `Name: value` a line."},
		{"telemetry.metrics_interval", duration(&c.Telemetry.MetricsInterval, time.Second, time.Hour), "", "Pause between two deliveries of metrics."},
		{"telemetry.traces_sample", &ratioValue{&c.Telemetry.TracesSample}, "", "Share of new traces that are recorded. A caller's own decision is kept."},
	}
}
