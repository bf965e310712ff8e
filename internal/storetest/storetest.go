// Package storetest is the suite that every database of the mesh passes. It
// says by tests what package store promises to the domains; how a database
// keeps the promise is tested beside its code.
package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/keyring"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/push"
	"github.com/parley-mesh/parley/internal/registry"
	"github.com/parley-mesh/parley/internal/store"
	"github.com/parley-mesh/parley/internal/stream"
)

// Store is what the suite tests.
type Store interface {
	identity.Store
	registry.Store
	keyring.Store
	call.Reader
	Begin(ctx context.Context, r *call.Record) error
	Settle(ctx context.Context, s call.Settlement, wait bool) error
	OpenCallsOf(ctx context.Context, agent parley.AgentName) ([]call.Candidate, error)
	OpenCalls(ctx context.Context) ([]*call.Record, error)
	Recover(ctx context.Context, now time.Time) (int, error)
	Task(ctx context.Context, key call.TaskKey) (*call.Task, error)
	Tasks(ctx context.Context, f call.TaskFilter) ([]*call.Task, int, error)
	AllTasks(ctx context.Context, f call.TaskFilter) ([]*call.Task, error)
	ContextOwner(ctx context.Context, agent parley.AgentName, instance, contextID string) (parley.PrincipalName, error)
	Events(ctx context.Context, after int64, limit int) ([]parley.Event, error)
	AppendEvents(ctx context.Context, events ...parley.Event) error
	LastSeq(ctx context.Context) (int64, error)
	Prune(ctx context.Context, c store.Cutoffs) (store.Pruned, error)
	Flush(ctx context.Context) error
	ClaimAnswer(ctx context.Context, principal parley.PrincipalName, owner parley.OwnerName, key string, request [32]byte, now, until time.Time) (claimed bool, first [32]byte, answer []byte, err error)
	KeepAnswer(ctx context.Context, principal parley.PrincipalName, owner parley.OwnerName, key string, answer []byte, until time.Time) error
	DropAnswer(ctx context.Context, principal parley.PrincipalName, key string) error
	push.Store
	push.Outbox
	push.Letters
	RetryPushNow(ctx context.Context, subscription string) error
	PushStates(ctx context.Context, f push.StateFilter) ([]*push.State, error)
	PushLetters(ctx context.Context, f push.LetterFilter) ([]*push.Letter, error)
	RoomForSubscription(ctx context.Context, principal parley.PrincipalName, most push.Limits) error
	Relay(ctx context.Context, task call.TaskKey) (*push.Relay, error)
	RelayByCallback(ctx context.Context, callback string) (*push.Relay, error)
	DueRelays(ctx context.Context, now time.Time, limit int) ([]*push.Relay, error)
	Relays(ctx context.Context, after string, limit int) ([]*push.Relay, error)
	ClaimRelay(ctx context.Context, r *push.Relay, until time.Time) (bool, error)
	SaveUpstream(ctx context.Context, r *push.Relay) (saved bool, err error)
	SaveRelay(ctx context.Context, r *push.Relay) error
	NudgeRelay(ctx context.Context, task call.TaskKey, at time.Time) error
	DropRelay(ctx context.Context, task call.TaskKey) (bool, error)
	EndRelays(ctx context.Context, before time.Time) (int64, error)
	Append(ctx context.Context, key call.TaskKey, owner parley.OwnerName, frames ...[]byte) (int64, error)
	AppendLater(ctx context.Context, e stream.Entry)
	After(ctx context.Context, key call.TaskKey, seq int64, max int) ([]stream.Event, error)
	Bounds(ctx context.Context, key call.TaskKey) (first, last int64, err error)
	Watch(key call.TaskKey) (wake <-chan struct{}, stop func())
	Shared() bool
}

// Run runs the suite. open gives an empty store that ends with its test.
func Run(t *testing.T, open func(t *testing.T) Store) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s Store)
	}{
		{"Owners", testOwners},
		{"Principals", testPrincipals},
		{"Keys", testKeys},
		{"Frozen", testFrozen},
		{"Names", testNames},
		{"Links", testLinks},
		{"AdmitRace", testAdmitRace},
		{"Agents", testAgents},
		{"Credentials", testCredentials},
		{"CredentialParts", testCredentialParts},
		{"Instances", testInstances},
		{"OpenAt", testOpenAt},
		{"MovedCall", testMovedCall},
		{"QuietAgents", testQuietAgents},
		{"CompareAndSetRace", testCompareAndSetRace},
		{"DeletedPrincipalLeavesNothing", testDeletedPrincipalLeavesNothing},
		{"DeletedAgentTakesItsCallingSide", testDeletedAgentTakesItsCallingSide},
		{"CallRoundTrip", testCallRoundTrip},
		{"CallEndsOnce", testCallEndsOnce},
		{"CallFilters", testCallFilters},
		{"CallTree", testCallTree},
		{"OpenCalls", testOpenCalls},
		{"Recover", testRecover},
		{"ReadsSeeUnwaited", testReadsSeeUnwaited},
		{"TaskOwnership", testTaskOwnership},
		{"SentMessages", testSentMessages},
		{"OwnershipRace", testOwnershipRace},
		{"BegunContextRace", testBegunContextRace},
		{"FinalTaskStays", testFinalTaskStays},
		{"FirstFinalStateStays", testFirstFinalStateStays},
		{"OlderStateIsLate", testOlderStateIsLate},
		{"TaskSeenByTheMesh", testTaskSeenByTheMesh},
		{"TaskPages", testTaskPages},
		{"EventOrder", testEventOrder},
		{"EventsMissNothing", testEventsMissNothing},
		{"RefusedChangesNothing", testRefusedChangesNothing},
		{"Prune", testPrune},
		{"Answers", testAnswers},
		{"Subscriptions", testSubscriptions},
		{"SubscriptionLimits", testSubscriptionLimits},
		{"SubscriptionsGoWith", testSubscriptionsGoWith},
		{"GivenUpWrites", testGivenUpWrites},
		{"Relays", testRelays},
		{"RelayClaimRace", testRelayClaimRace},
		{"RelaysEnd", testRelaysEnd},
		{"PushTurns", testPushTurns},
		{"PushMarks", testPushMarks},
		{"PushLeaseEnds", testPushLeaseEnds},
		{"PushClaimRace", testPushClaimRace},
		{"PushEnds", testPushEnds},
		{"PushFairness", testPushFairness},
		{"Journal", testJournal},
		{"JournalReadsAreBounded", testJournalReadsAreBounded},
		{"JournalOrder", testJournalOrder},
		{"JournalSource", testJournalSource},
		{"JournalLater", testJournalLater},
		{"JournalWatch", testJournalWatch},
		{"JournalRetention", testJournalRetention},
		{"MeshKeys", testMeshKeys},
		{"MeshKeyRace", testMeshKeyRace},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

// epoch is the time the suite's records begin at.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)

func at(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// placed sets the record's places in the feed, which may be given later than the
// record is written.
func placed(t *testing.T, s Store, r *call.Record) {
	t.Helper()
	must(t, s.Flush(t.Context()))
	got, err := s.Call(t.Context(), r.ID)
	must(t, err)
	if got.Seq == 0 || !got.Open() && got.EndSeq <= got.Seq {
		t.Errorf("call %s has the places %d and %d", r.ID, got.Seq, got.EndSeq)
	}
	r.Seq, r.EndSeq = got.Seq, got.EndSeq
}

func wantKind(t *testing.T, what string, err error, kind parley.Kind) {
	t.Helper()
	if err == nil || parley.KindOf(err) != kind {
		t.Errorf("%s: error %v, want one of kind %s", what, err, kind)
	}
}

func happened(subject, kind string) parley.Event {
	return parley.Event{Subject: subject, Type: kind, Time: at(0), Owner: "alpha", Environment: parley.Dev, Data: []byte(`{"a":1}`)}
}

// addOwner makes an owner and gives its name.
func addOwner(t *testing.T, s Store, name parley.OwnerName) parley.OwnerName {
	t.Helper()
	must(t, s.SaveOwner(t.Context(), &identity.Owner{Name: name, CreatedAt: at(0)}))
	return name
}

// newRecord is a record with every field of a begun call set.
func newRecord(i int) *call.Record {
	id := parley.NewCallID()
	return &call.Record{
		ID: id, Root: id, Link: call.Link{Kind: call.LinkRoot},
		Caller: "client", CallerOwner: "alpha", CallerAgent: "planner", Environment: parley.Staging,
		Agent: "echo", AgentOwner: "beta", Instance: "one", Method: "SendMessage",
		CallerBinding: "JSONRPC", AgentBinding: "HTTP+JSON", Version: "1.0", MessageID: fmt.Sprintf("m%d", i),
		ContextID: fmt.Sprintf("c%d", i), Reference: fmt.Sprintf("order %d", i),
		TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", SpanID: "00f067aa0ba902b7",
		Begun: at(i), Deadline: at(i + 3600),
	}
}

// finish gives the record an end.
func finish(r *call.Record, outcome parley.Outcome) {
	r.End = call.End{
		Ended: r.Begun.Add(time.Second), Outcome: outcome, Reason: "dial", Detail: "no connection", Status: 502,
		BytesIn: 10, BytesOut: 20, FirstByte: 5 * time.Millisecond, Total: time.Second,
		Steps: []call.Step{{Name: "identify", Took: 1234}, {Name: "forward", Took: time.Second}},
	}
}

// newTask is a task that the record's call made.
func newTask(r *call.Record, id string, status time.Time) *call.Task {
	return &call.Task{
		Agent: r.Agent, Instance: r.Instance, ID: id, Principal: r.Caller, Owner: r.CallerOwner, ContextID: r.ContextID,
		State: "TASK_STATE_WORKING", StatusAt: status, Call: r.ID, UpdatedAt: status, Snapshot: []byte(`{"id":"` + id + `"}`),
	}
}
