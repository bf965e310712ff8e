package config

import (
	"net/netip"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// Config is the whole configuration of one process. Load is the way to get one
// that has been checked; Default is the tree every Load starts from. Keys,
// ranges and explanations stand in keys.go and docs/config.md.
type Config struct {
	Listen        string // edge and control API
	ControlListen string // empty: the control API shares Listen
	GRPCListen    string // empty: no gRPC listener
	OpsListen     string // empty: no operations listener
	PublicURL     string // empty: derived from the address Listen is bound to; never ends in a slash
	GRPCPublicURL string // host:port; empty: derived from the address GRPCListen is bound to
	Data          string // absolute after Load
	Store         Store  // zero: SQLite in Data
	Durability    Durability
	Environment   parley.Environment
	MasterKey     Secret // zero: the key file in Data
	Cards         CardAccess
	ExtensionBase string // what the URIs of the mesh's extensions begin with; never ends in a slash

	Network   Network
	TLS       TLS
	CORS      CORS
	Auth      Auth
	A2A       A2A
	Postgres  Postgres
	Limits    Limits
	Retention Retention
	Agents    Agents
	Keys      Keys
	Push      Push
	Watch     Watch
	Log       Log
	Telemetry Telemetry

	origins map[string]Origin // by key; absent means default
	notices []string
}

// Network says which addresses agents, cards and webhooks may live at beyond
// the public internet.
type Network struct {
	Allow []netip.Prefix // masked; as configured, see Config.AllowedNetworks for the effective list
	Deny  []netip.Prefix // masked; wins over Allow and over public addresses
}

// TLS names the server certificate of all listeners but the operations one, and
// says which client certificates are taken. Cert and Key are set or empty
// together.
type TLS struct {
	Cert       string // PEM file with the certificate chain
	Key        string // PEM file with the private key
	ClientCA   string // PEM file with the authorities of clients; empty: client certificates are not asked for
	ClientAuth ClientAuth
	CRL        string // file or folder; empty: revocation is not looked at
	CRLCheck   CRLCheck
	Reload     time.Duration // pause between two looks at the files
	HSTS       time.Duration // how long browsers are told to use TLS only; 0: they are not told
}

// CORS lists the web origins whose pages may call the edge.
type CORS struct {
	Origins []string // scheme://host[:port], lower case
}

// Auth says who may call without a credential and how failures are slowed.
type Auth struct {
	Anonymous         []parley.AgentName
	FailuresPerMinute int // per client address, sustained
	FailureBurst      int // per client address, at once
	Issuers           []Issuer
	SPIFFE            SPIFFE
}

// SPIFFE says whose SPIFFE ids identify callers.
type SPIFFE struct {
	TrustDomains []string
}

// A2A holds choices where the protocol leaves room.
type A2A struct {
	StrictVersion bool
}

// Postgres says how a store on PostgreSQL is used.
type Postgres struct {
	Connections      int           // that read at once; four more write and listen
	ConnectTimeout   time.Duration // for one server
	StatementTimeout time.Duration // of a read, and of a transaction of the writer
	Lease            time.Duration // without a sign of life after which a replica is dead
}

// Limits bounds what one peer can make the process hold or wait for.
type Limits struct {
	RequestBody  ByteSize
	ResponseBody ByteSize
	StreamEvent  ByteSize
	StreamBuffer ByteSize
	TaskSnapshot ByteSize
	Card         ByteSize
	Header       ByteSize
	JSONDepth    int

	CallDeadline       time.Duration
	UnaryTimeout       time.Duration
	FirstByteTimeout   time.Duration
	DialTimeout        time.Duration
	HeaderTimeout      time.Duration
	BodyTimeout        time.Duration
	IdleTimeout        time.Duration
	StreamWriteTimeout time.Duration
	StreamKeepalive    time.Duration
	ShutdownTimeout    time.Duration

	Connections           int
	ConnectionsPerAddress int
	StreamsPerConnection  int // HTTP/2: requests under way at once
	RatePerPrincipal      int // requests a second
	BurstPerPrincipal     int // requests
	RatePerAddress        int // requests a second without a credential
	BurstPerAddress       int // requests without a credential
	Streams               int
	StreamsPerPrincipal   int
	StreamsDetached       int
	StreamRecovery        time.Duration
	IdlePerAgent          int
	ListRefresh           int
	ListRefreshTimeout    time.Duration
}

// Retention says how long finished records are kept.
type Retention struct {
	Calls  time.Duration
	Events time.Duration
	Tasks  time.Duration
	// Journal is how long events of tasks are kept, at most JournalEvents and
	// JournalSize of one task.
	Journal       time.Duration
	JournalEvents int
	JournalSize   ByteSize
	// Messages is how long a repeated message is known as one.
	Messages    time.Duration
	DeadLetters time.Duration
	Sweep       time.Duration // pause between two removals
}

// Agents says how the registry keeps its view of agents current.
type Agents struct {
	Refresh      time.Duration // pause between two fetches of one card
	ProbeTimeout time.Duration // one request of a binding probe
	KeyProviders []string      // origins whose key sets may verify any card: scheme://host[:port], lower case
}

// Keys says how long the keys with which the mesh signs are used.
type Keys struct {
	Rotation time.Duration // age at which a key is replaced
	Overlap  time.Duration // how long a replaced key stays published
}

// Watch says how the mesh asks about tasks that nobody watches.
type Watch struct {
	First      time.Duration // pause before the first question
	Max        time.Duration // longest pause
	Concurrent int           // questions at once
}

// Push says how push notifications are relayed.
type Push struct {
	Relay        bool
	Callbacks    bool          // agents that can push are asked to push to the mesh
	CallbackURL  string        // under which agents reach the edge; empty: the public address; never ends in a slash
	PerTask      int           // configs
	PerPrincipal int           // configs for tasks that are not final
	Keep         time.Duration // of configs, after their task is final and all is delivered

	Timeout    time.Duration // of one attempt to deliver
	GiveUp     time.Duration // after an event happened, before it becomes a dead letter
	RetryFirst time.Duration // pause after a first failed attempt; doubled after each
	RetryMax   time.Duration // longest such pause
	Concurrent int           // attempts at once
	PerHost    int           // attempts at once at one host
}

// Log says what is logged and in which form.
type Log struct {
	Level  LogLevel
	Format LogFormat
}

// Telemetry says where traces go. Metrics are always served on OpsListen.
type Telemetry struct {
	TracesEndpoint string  // empty: traces are not exported
	TracesHeaders  Secret  // one "Name: value" a line
	TracesSample   float64 // share of new roots, 0 to 1

	MetricsEndpoint string // empty: metrics are served and not sent
	MetricsHeaders  Secret // one "Name: value" a line
	MetricsInterval time.Duration
}

// Durability says when a settled call is acknowledged.
type Durability string

// The durability levels.
const (
	DurabilityStrict  Durability = "strict"  // before anything with effects leaves, and before the reply where the design says so
	DurabilityRelaxed Durability = "relaxed" // with the next batch; a crash may lose the last milliseconds
)

// CardAccess says who may read the well-known agent cards.
type CardAccess string

// The ways cards can be served.
const (
	CardsPublic        CardAccess = "public"
	CardsAuthenticated CardAccess = "authenticated"
)

// ClientAuth says what is asked of clients where TLS.ClientCA is set.
type ClientAuth string

// The ways to ask for client certificates.
const (
	ClientAuthNone    ClientAuth = "none"    // they are not asked for
	ClientAuthRequest ClientAuth = "request" // who has none shows another credential
	ClientAuthRequire ClientAuth = "require" // nobody connects without one
)

// CRLCheck says what happens where no current revocation list tells about a
// certificate.
type CRLCheck string

// The ways to take what is not known.
const (
	CRLStrict  CRLCheck = "strict"  // it is refused
	CRLLenient CRLCheck = "lenient" // it is taken
)

// LogLevel is the least severe level that is logged.
type LogLevel string

// The log levels.
const (
	LogDebug LogLevel = "debug"
	LogInfo  LogLevel = "info"
	LogWarn  LogLevel = "warn"
	LogError LogLevel = "error"
)

// LogFormat is the form of log lines.
type LogFormat string

// The log formats.
const (
	LogText LogFormat = "text"
	LogJSON LogFormat = "json"
)

const day = 24 * time.Hour

// Default returns the configuration of a process that was told nothing. Data
// is empty in it: Load fills it from the environment it is given, because the
// place depends on the user.
func Default() *Config {
	return &Config{
		Listen:      "127.0.0.1:7400",
		GRPCListen:  "127.0.0.1:7401",
		OpsListen:   "127.0.0.1:7402",
		Durability:  DurabilityStrict,
		Environment: parley.Dev,
		Cards:       CardsPublic,

		ExtensionBase: "https://parley.invalid/ext",
		Network:       Network{Deny: []netip.Prefix{cloudHost}},
		TLS:           TLS{ClientAuth: ClientAuthRequest, CRLCheck: CRLStrict, Reload: 10 * time.Second, HSTS: 365 * day},
		Auth:          Auth{FailuresPerMinute: 60, FailureBurst: 20},
		Postgres:      Postgres{Connections: 8, ConnectTimeout: 5 * time.Second, StatementTimeout: 10 * time.Second, Lease: 15 * time.Second},
		Limits:        defaultLimits(),
		Retention:     Retention{Calls: 30 * day, Events: 30 * day, Tasks: 30 * day, Journal: 2 * day, JournalEvents: 10_000, JournalSize: 16 * MiB, Messages: time.Hour, DeadLetters: 30 * day, Sweep: time.Hour},
		Agents:        Agents{Refresh: time.Hour, ProbeTimeout: 10 * time.Second},
		Keys:          Keys{Rotation: 90 * day, Overlap: 7 * day},
		Watch:         Watch{First: 2 * time.Second, Max: 5 * time.Minute, Concurrent: 16},
		Push:          defaultPush(),
		Log:           Log{Level: LogInfo, Format: LogText},
		Telemetry:     Telemetry{TracesSample: 1, MetricsInterval: time.Minute},
	}
}

func defaultPush() Push {
	return Push{
		Relay: true, Callbacks: true, PerTask: 16, PerPrincipal: 10_000, Keep: time.Hour,
		Timeout: 15 * time.Second, GiveUp: day, RetryFirst: 5 * time.Second, RetryMax: time.Hour, Concurrent: 256, PerHost: 8,
	}
}

func defaultLimits() Limits {
	return Limits{
		RequestBody:  10 * MiB,
		ResponseBody: 10 * MiB,
		StreamEvent:  4 * MiB,
		StreamBuffer: 8 * MiB,
		TaskSnapshot: 1 * MiB,
		Card:         256 * KiB,
		Header:       64 * KiB,
		JSONDepth:    64,

		CallDeadline:       day,
		UnaryTimeout:       10 * time.Minute,
		FirstByteTimeout:   10 * time.Minute,
		DialTimeout:        5 * time.Second,
		HeaderTimeout:      10 * time.Second,
		BodyTimeout:        time.Minute,
		IdleTimeout:        2 * time.Minute,
		StreamWriteTimeout: 30 * time.Second,
		StreamKeepalive:    4 * time.Second, // the official Python client gives up after 5 s of silence
		ShutdownTimeout:    30 * time.Second,

		Connections:           10_000,
		ConnectionsPerAddress: 5_000, // half of all: a proxy in front is one address
		StreamsPerConnection:  250,
		RatePerPrincipal:      1_000,
		BurstPerPrincipal:     2_000,
		RatePerAddress:        200,
		BurstPerAddress:       1_000,
		Streams:               5_000,
		StreamsPerPrincipal:   500,
		StreamsDetached:       1000,
		StreamRecovery:        time.Minute,
		IdlePerAgent:          256,
		ListRefresh:           16,
		ListRefreshTimeout:    2 * time.Second,
	}
}
