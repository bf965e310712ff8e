package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/push"
)

// How relays are looked after.
const (
	relayPoll  = time.Second      // pause between two looks into the store without a hint
	relayGrace = 10 * time.Second // that a look may take beyond its question before another process takes it over
	relayPage  = 500              // relays read at once
	toldPage   = 256              // events of a journal read at once
)

// relays is the process's own view of the relays: which tasks have one, as far
// as it knows, and the way to wake whoever looks after them.
type relays struct {
	mu    sync.Mutex
	tasks map[call.TaskKey]struct{} // guarded by mu; tasks that are not final
	wake  chan struct{}             // told when a look may be due
	rates callbackRates
}

func newRelays() *relays {
	return &relays{tasks: map[call.TaskKey]struct{}{}, wake: make(chan struct{}, 1), rates: newCallbackRates()}
}

// follow notes that a task has a relay now.
func (r *relays) follow(one *push.Relay) {
	if one.LookAt.IsZero() {
		return
	}
	r.mu.Lock()
	r.tasks[one.Task] = struct{}{}
	r.mu.Unlock()
	r.wakeUp()
}

func (r *relays) forget(key call.TaskKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.tasks, key)
}

func (r *relays) follows(key call.TaskKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.tasks[key]
	return ok
}

func (r *relays) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default: // told already
	}
}

// restoreRelays notes the relays that are in the store.
func (g *Gateway) restoreRelays(ctx context.Context) error {
	for after := ""; ; {
		page, err := g.Push.Store.Relays(ctx, after, relayPage)
		if err != nil {
			return err
		}
		for _, r := range page {
			g.relays.follow(r)
			after = r.Callback
		}
		if len(page) < relayPage {
			return nil
		}
	}
}

// runRelays looks at the tasks of relays when their time has come, until ctx
// ends. The times are in the store: what a process that died was about to look
// at, the next one does, and of several replicas one looks.
func (g *Gateway) runRelays(ctx context.Context) {
	var looks sync.WaitGroup
	defer looks.Wait()
	opts := g.Watch.withDefaults()
	slots := make(chan struct{}, opts.Concurrency)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due, err := g.Push.Store.DueRelays(ctx, g.Now(), opts.Concurrency)
		if err != nil && ctx.Err() == nil {
			g.Log.Warn("tasks of which somebody is to be told not found; tried again", "err", err)
		}
		mine := 0
		for _, r := range due {
			select {
			case <-ctx.Done():
				return
			case slots <- struct{}{}:
			}
			claimed, err := g.Push.Store.ClaimRelay(context.WithoutCancel(ctx), r, g.Now().Add(opts.Timeout+relayGrace))
			if err != nil || !claimed {
				<-slots
				continue
			}
			mine++
			looks.Go(func() {
				defer func() { <-slots; g.relays.wakeUp() }()
				g.relay(ctx, r, opts)
			})
		}
		// More may be due. What was claimed is not, so this comes to an end; where
		// nothing could be claimed, a store that only reads would be asked without pause.
		if len(due) == opts.Concurrency && mine > 0 {
			continue
		}
		timer.Reset(relayPoll)
		select {
		case <-ctx.Done():
			return
		case <-g.relays.wake:
		case <-timer.C:
		}
	}
}

// relay looks at one task and plans the next look. r was claimed.
func (g *Gateway) relay(ctx context.Context, r *push.Relay, opts WatchOptions) {
	ctx, cancel := context.WithTimeout(ctx, opts.Timeout+relayGrace/2)
	defer cancel()
	subscribed, err := g.Push.Store.TaskSubscriptions(ctx, r.Task, "", 1)
	if err == nil && len(subscribed) == 0 {
		g.endRelay(ctx, r)
		return
	}
	if err == nil && r.Upstream == push.UpstreamNew {
		err = g.registerUpstream(ctx, r)
	}
	changed := false
	if err == nil {
		g.relays.follow(r) // it may be another process's
		changed, err = g.learn(ctx, r)
	}
	if err != nil {
		if ctx.Err() == nil {
			g.Log.Debug("task of which somebody is to be told not seen", "agent", r.Task.Agent, "err", err)
		}
	}
	now := g.Now()
	if r.Ended.IsZero() {
		push.Pace{First: opts.First, Max: opts.Max}.Next(r, now, changed)
	} else {
		r.LookAt = time.Time{}
		g.relays.forget(r.Task)
	}
	if err := g.Push.Store.SaveRelay(context.WithoutCancel(ctx), r); err != nil {
		g.Log.Warn("what was learnt of a task is learnt again", "agent", r.Task.Agent, "err", err)
	}
}

// endRelay ends a relay without subscribers: the agent need not push any more.
func (g *Gateway) endRelay(ctx context.Context, r *push.Relay) {
	dropped, err := g.Push.Store.DropRelay(ctx, r.Task)
	if err != nil || !dropped {
		return // the claim runs out, and then it is tried again
	}
	g.relays.forget(r.Task)
	if r.Upstream == push.UpstreamActive {
		_, err := g.ask(ctx, r.Task, a2a.DeletePushConfig, a2a.PushConfigRequest{TaskID: r.Task.ID, ID: r.Callback})
		if err != nil {
			g.Log.Debug("agent not told that its pushes are not wanted any more", "agent", r.Task.Agent, "err", err)
		}
	}
}

// learn looks at the relay's task and journals what subscribers do not know yet.
// While a stream of a caller's follows the task, its frames are the journal.
func (g *Gateway) learn(ctx context.Context, r *push.Relay) (changed bool, err error) {
	if streamed, err := g.streamed(ctx, r.Task); err != nil || streamed {
		return false, err
	}
	_, before, err := g.Push.Events.Bounds(ctx, r.Task)
	if err != nil {
		return false, err
	}
	task, err := g.seeTask(ctx, r)
	if err != nil || task == nil {
		return false, err
	}
	_, last, err := g.Push.Events.Bounds(ctx, r.Task)
	if err != nil {
		return false, err
	}
	streamed, err := g.streamed(ctx, r.Task)
	if err != nil {
		return false, err
	}
	if streamed || last != before {
		return true, nil // somebody tells it meanwhile: what was seen may be older than that
	}
	seen, err := g.told(ctx, r, last)
	if err != nil {
		return false, err
	}
	sight, shown := g.show(task)
	if sight.Tells(seen) {
		if last, err = g.Push.Events.Append(ctx, r.Task, r.Owner, shown); err != nil {
			return false, err
		}
		changed = true
	}
	r.Seen, r.SeenSeq = sight.Mark(), last
	if task.Final {
		r.Ended = g.Now()
	}
	return changed, nil
}

// streamed reports whether a stream shows the task, here or at another replica.
func (g *Gateway) streamed(ctx context.Context, key call.TaskKey) (bool, error) {
	if _, followed := g.open.state(key); followed || g.hubs.get(key) != nil {
		return true, nil
	}
	return g.Streams.FedElsewhere(ctx, key)
}

// seeTask gives the relay's task as it is now; nil where the agent says that it
// does not know it. One that is final, and known whole, need not be asked for.
func (g *Gateway) seeTask(ctx context.Context, r *push.Relay) (*call.Task, error) {
	known, err := g.Journal.Task(ctx, r.Task)
	if err != nil || known.Final && known.Snapshot != nil {
		return known, err
	}
	task, err := g.peek(ctx, r.Task)
	if a2aReason(err) != a2a.ReasonTaskNotFound {
		if err == nil {
			r.Lost = 0
		}
		return task, err
	}
	if r.Lost++; r.Lost < maxLost {
		return nil, nil
	}
	if known.Final { // its state is all there is left to tell
		return known, nil
	}
	r.Ended = g.Now() // nothing true can be told any more
	return nil, nil
}

// told is the mark of what the task's journal tells up to its event last.
func (g *Gateway) told(ctx context.Context, r *push.Relay, last int64) (string, error) {
	seen := r.Seen
	for at := r.SeenSeq; at < last; {
		events, err := g.Push.Events.After(ctx, r.Task, at, toldPage)
		if err != nil || len(events) == 0 {
			return seen, err
		}
		for _, e := range events {
			if sight, ok := g.sightOfFrame(e.Frame); ok {
				seen = sight.Mark()
			}
		}
		at = events[len(events)-1].Seq
	}
	return seen, nil
}

// sightOfFrame is what an event tells of its task; ok is false where it tells no
// state. What is known of the content after an update is a sum of many events,
// and not known here.
func (g *Gateway) sightOfFrame(frame []byte) (s push.Sight, ok bool) {
	if task, ok := jsonwire.Get(frame, "/task"); ok {
		return sightOf(task), true
	}
	status, ok := jsonwire.Get(frame, "/statusUpdate/status")
	if !ok {
		return push.Sight{}, false
	}
	return sightOfStatus(status), true
}

// show is the event that shows a task whole, without its history, for which
// callers can ask.
func (g *Gateway) show(task *call.Task) (push.Sight, []byte) {
	raw := jsontext.Value(task.Snapshot)
	if raw == nil {
		raw, _ = listed(task, a2a.ListTasksRequest{}) // of strings and a time: it cannot fail
	}
	if bare, err := jsonwire.Delete(raw, "/history"); err == nil {
		raw = bare
	}
	frame := append(append([]byte(`{"task":`), raw...), '}')
	return sightOf(raw), frame
}

// sightOf is what a Task tells.
func sightOf(task jsontext.Value) push.Sight {
	status, _ := jsonwire.Get(task, "/status")
	s := sightOfStatus(status)
	bare, err := jsonwire.Delete(task, "/history")
	if err != nil {
		return s
	}
	canonical := jsontext.Value(bare).Clone()
	if canonical.Canonicalize() != nil {
		return s
	}
	sum := sha256.Sum256(canonical)
	s.Digest = hex.EncodeToString(sum[:16])
	return s
}

func sightOfStatus(status jsontext.Value) push.Sight {
	state, _ := jsonwire.Get(status, "/state")
	at, _ := jsonwire.Get(status, "/timestamp")
	s := push.Sight{State: jsonwire.String(state)}
	if when, err := time.Parse(time.RFC3339Nano, jsonwire.String(at)); err == nil {
		s.At = when
	}
	return s
}

// sightOfIndex is what the index knows of a task. Its time may be the mesh's own.
func sightOfIndex(task *call.Task) push.Sight {
	if task.Snapshot != nil {
		return sightOf(task.Snapshot)
	}
	return push.Sight{State: task.State}
}

// registerUpstream asks the agent to push to the mesh, once for each task, and
// notes whether it will. The token is saved, as a hash, before the agent has it:
// it may push at once. One that cannot be asked now is asked at the next look.
func (g *Gateway) registerUpstream(ctx context.Context, r *push.Relay) error {
	pushes, err := g.agentPushes(ctx, r.Task)
	if err != nil {
		return err
	}
	if !pushes {
		r.Upstream = push.UpstreamNone
		return nil
	}
	token := push.NewID()
	r.TokenHash = push.HashToken(token)
	if saved, err := g.Push.Store.SaveUpstream(ctx, r); err != nil || !saved {
		return err
	}
	_, err = g.ask(ctx, r.Task, a2a.CreatePushConfig, a2a.TaskPushNotificationConfig{
		ID: r.Callback, TaskID: r.Task.ID, URL: g.Push.Callback + CallbackPrefix + r.Callback, Token: token,
		// Some agents send the token, some the credentials, some both.
		Authentication: &a2a.AuthenticationInfo{Scheme: "Bearer", Credentials: token},
	})
	var refused *a2a.Error
	switch {
	case err == nil:
		r.Upstream = push.UpstreamActive
	case errors.As(err, &refused):
		r.Upstream, r.TokenHash = push.UpstreamNone, nil
		g.Log.Debug("agent does not take the mesh's push notification config, its task is watched", "agent", r.Task.Agent, "err", err)
	default:
		g.Log.Debug("agent not asked to push; its task is watched meanwhile", "agent", r.Task.Agent, "err", err)
	}
	return nil
}

// agentPushes reports whether the mesh can have the agent push: it says so in
// its card, and there is an address to push to.
func (g *Gateway) agentPushes(ctx context.Context, key call.TaskKey) (bool, error) {
	home, err := g.Agents.Lookup(ctx, key.Agent)
	if err != nil {
		return false, err
	}
	target := home.At(key.Instance)
	if target == nil {
		return false, parley.E("gateway.push", parley.NotFound, parley.Subject(key.Agent), "the instance of the agent where the task lives was removed", nil)
	}
	card := target.Agent.Card
	if target.Instance != nil {
		card = target.Instance.Card
	}
	flag, _ := jsonwire.Get(card, "/capabilities/pushNotifications")
	return g.Push.Callback != "" && string(flag) == "true", nil
}
