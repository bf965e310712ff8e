// Package telemetry holds every name under which the mesh shows itself to
// OpenTelemetry and Prometheus, and the instruments of the gateway. Names
// follow the GenAI and A2A semantic conventions where those have one; ours
// begin with "parley.". Labels are bounded: agents, methods, outcomes, kinds;
// ids go on spans only, payloads and credentials nowhere.
//
// All values are safe for concurrent use.
package telemetry

import "go.opentelemetry.io/otel/attribute"

// Scope names the instrumentation.
const Scope = "github.com/parley-mesh/parley"

// Attribute keys.
const (
	OperationName = attribute.Key("gen_ai.operation.name")
	AgentName     = attribute.Key("gen_ai.agent.name")
	AgentInstance = attribute.Key("parley.agent.instance")
	AgentVersion  = attribute.Key("gen_ai.agent.version")
	Conversation  = attribute.Key("gen_ai.conversation.id")
	A2AMethod     = attribute.Key("a2a.method.name")
	A2ATask       = attribute.Key("a2a.task.id")
	A2ATaskState  = attribute.Key("a2a.task.state")
	A2AMessage    = attribute.Key("a2a.message.id")
	A2AVersion    = attribute.Key("a2a.protocol.version")
	ErrorType     = attribute.Key("error.type")

	CallID        = attribute.Key("parley.call.id")
	CallRoot      = attribute.Key("parley.call.root")
	CallDepth     = attribute.Key("parley.call.depth")
	Outcome       = attribute.Key("parley.outcome")
	CallerName    = attribute.Key("parley.caller")
	CallerBinding = attribute.Key("parley.caller.binding")
	AgentBinding  = attribute.Key("parley.agent.binding")
	Environment   = attribute.Key("parley.environment")
	Reason        = attribute.Key("parley.reason")
	Listener      = attribute.Key("parley.listener")
	LimitedBy     = attribute.Key("parley.limited.by") // principal or address
	PushResult    = attribute.Key("parley.push.result")
)

// Metric names; Prometheus writes dots as underscores and adds the unit.
const (
	MetricCalls              = "parley.calls"               // counter {agent, method, outcome}
	MetricCallDuration       = "parley.call.duration"       // histogram, seconds {agent, method}
	MetricFirstByte          = "parley.call.first_byte"     // histogram, seconds {agent, method}
	MetricOpenCalls          = "parley.calls.open"          // gauge
	MetricOpenStreams        = "parley.streams.open"        // gauge
	MetricCommit             = "parley.store.commit"        // histogram, seconds
	MetricBatch              = "parley.store.batch"         // histogram, operations a commit
	MetricQueue              = "parley.store.queue"         // gauge, operations waiting
	MetricStoreFailures      = "parley.store.failures"      // counter
	MetricSettleRefused      = "parley.store.refused"       // counter
	MetricDropped            = "parley.store.dropped"       // counter
	MetricWatchedTasks       = "parley.tasks.watched"       // gauge
	MetricLimited            = "parley.calls.limited"       // counter {by}
	MetricOpenConnections    = "parley.connections.open"    // gauge {listener}
	MetricRefusedConnections = "parley.connections.refused" // counter {listener}
	MetricPushes             = "parley.pushes"              // counter, attempts {result}
	MetricPushDuration       = "parley.push.duration"       // histogram, seconds {result}
	MetricPushDelay          = "parley.push.delay"          // histogram, seconds
	MetricPushesDead         = "parley.pushes.dead"         // counter
	MetricPushesPending      = "parley.pushes.pending"      // gauge, subscriptions with something to deliver
)
