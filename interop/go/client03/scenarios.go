package main

import (
	"context"
	"encoding/base64"
	"time"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2aclient"

	"github.com/parley-mesh/parley/interop/go/peer"
)

// unknownExtension stands for an extension neither side has heard of.
const unknownExtension = "https://extensions.invalid/unknown/v1"

// pollInterval is the pause between two looks at a task.
const pollInterval = 20 * time.Millisecond

var scenarioNames = []string{"send", "stream", "get", "cancel", "subscribe", "input", "files", "errors", "headers"}

type scenario func(context.Context, *a2aclient.Client, *peer.Recorder)

var scenarios = map[string]scenario{
	"send":      send,
	"stream":    stream,
	"get":       get,
	"cancel":    cancel,
	"subscribe": subscribe,
	"input":     input,
	"files":     files,
	"errors":    failures,
	"headers":   headers,
}

func say(words string, more ...a2a.Part) *a2a.MessageSendParams {
	parts := append([]a2a.Part{a2a.TextPart{Text: words}}, more...)
	return &a2a.MessageSendParams{Message: a2a.NewMessage(a2a.MessageRoleUser, parts...)}
}

// sayOn is a further message on a task.
func sayOn(task a2a.TaskInfo, words string) *a2a.MessageSendParams {
	return &a2a.MessageSendParams{Message: a2a.NewMessageForTask(a2a.MessageRoleUser, task, a2a.TextPart{Text: words})}
}

// decorated carries metadata and an extension that nobody on the way knows.
func decorated(words string) *a2a.MessageSendParams {
	request := say(words)
	request.Message.Extensions = []string{unknownExtension}
	request.Message.Metadata = map[string]any{
		unknownExtension: map[string]any{"Level": 3, "tags": []any{"a", "b"}, "nested": map[string]any{"x_y": true}},
	}
	request.Metadata = map[string]any{"reference": "order-1"}
	return request
}

// sayOne is the scenario of a single message.
func sayOne(words string) scenario {
	return func(ctx context.Context, c *a2aclient.Client, r *peer.Recorder) {
		result, err := c.SendMessage(ctx, say(words))
		r.Answer("say", result, err)
	}
}

func send(ctx context.Context, c *a2aclient.Client, r *peer.Recorder) {
	mixed := a2a.DataPart{Data: map[string]any{"a": []any{1, 2.5, nil, "ü"}, "empty": map[string]any{}}}
	for _, request := range []*a2a.MessageSendParams{
		decorated("echo hello ünï"), decorated("task tea"), say("data", mixed), say(`data {"n":1}`), say("fail no milk"), say("reject no tea"),
	} {
		result, err := c.SendMessage(ctx, request)
		r.Answer("send", result, err)
	}
}

func stream(ctx context.Context, c *a2aclient.Client, r *peer.Recorder) {
	for _, request := range []*a2a.MessageSendParams{decorated("task tea"), say("slow 40 coffee"), decorated("echo hello"), say("fail no milk")} {
		peer.Stream(r, "stream", c.SendStreamingMessage(ctx, request), nil)
	}
}

func get(ctx context.Context, c *a2aclient.Client, r *peer.Recorder) {
	result, err := c.SendMessage(ctx, say("task tea"))
	r.Answer("send", result, err)
	id := taskOf(result).TaskID
	none, one := 0, 1
	for _, length := range []*int{nil, &none, &one} {
		task, err := c.GetTask(ctx, &a2a.TaskQueryParams{ID: id, HistoryLength: length})
		r.Answer("get", task, err)
	}
}

func cancel(ctx context.Context, c *a2aclient.Client, r *peer.Recorder) {
	request, blocking := say("slow 60000 long"), false
	request.Config = &a2a.MessageSendConfig{Blocking: &blocking}
	result, err := c.SendMessage(ctx, request)
	r.Accepted("send", result, err)
	id := taskOf(result).TaskID
	awaitWorking(ctx, c, id)
	task, err := c.CancelTask(ctx, &a2a.TaskIDParams{ID: id})
	r.Answer("cancel", task, err)
	task, err = c.GetTask(ctx, &a2a.TaskQueryParams{ID: id})
	r.Answer("get", task, err)
}

// subscribe leaves its first stream while the task works, comes back by a
// subscription, and ends the task from outside once that has begun: at its first
// event, which an agent of version 0.3 sends only when something happens.
func subscribe(ctx context.Context, c *a2aclient.Client, r *peer.Recorder) {
	var task a2a.TaskInfo
	peer.Stream(r, "stream", c.SendStreamingMessage(ctx, say("slow 12000 long")), func(e a2a.Event) bool {
		task = e.TaskInfo()
		update, ok := e.(*a2a.TaskStatusUpdateEvent)
		return !ok || update.Status.State != a2a.TaskStateWorking
	})
	var canceled *a2a.Task
	var err error
	peer.Stream(r, "subscribe", c.ResubscribeToTask(ctx, &a2a.TaskIDParams{ID: task.TaskID}), func(a2a.Event) bool {
		if canceled == nil && err == nil {
			canceled, err = c.CancelTask(ctx, &a2a.TaskIDParams{ID: task.TaskID})
		}
		return true
	})
	r.Answer("cancel", canceled, err)
}

func input(ctx context.Context, c *a2aclient.Client, r *peer.Recorder) {
	result, err := c.SendMessage(ctx, say("ask which tea?"))
	r.Answer("send", result, err)
	result, err = c.SendMessage(ctx, sayOn(taskOf(result), "oolong"))
	r.Answer("send", result, err)

	var task a2a.TaskInfo
	peer.Stream(r, "stream", c.SendStreamingMessage(ctx, say("ask which cup?")), func(e a2a.Event) bool {
		task = e.TaskInfo()
		return true
	})
	peer.Stream(r, "stream", c.SendStreamingMessage(ctx, sayOn(task, "blue")), nil)
}

func files(ctx context.Context, c *a2aclient.Client, r *peer.Recorder) {
	meta := a2a.FileMeta{Name: "note.bin", MimeType: "application/octet-stream"}
	raw := a2a.FilePart{File: a2a.FileBytes{FileMeta: meta, Bytes: base64.StdEncoding.EncodeToString([]byte{0, 1, 254, 255})}}
	link := a2a.FilePart{File: a2a.FileURI{FileMeta: a2a.FileMeta{Name: "tea.png", MimeType: "image/png"}, URI: "https://files.invalid/tea.png"}}
	result, err := c.SendMessage(ctx, say("file", raw, link))
	r.Answer("send", result, err)
	peer.Stream(r, "stream", c.SendStreamingMessage(ctx, say("file", raw)), nil)
}

func failures(ctx context.Context, c *a2aclient.Client, r *peer.Recorder) {
	unknown := a2a.TaskID(peer.UnknownTask)
	got, err := c.GetTask(ctx, &a2a.TaskQueryParams{ID: unknown})
	r.Answer("get unknown", got, err)
	got, err = c.CancelTask(ctx, &a2a.TaskIDParams{ID: unknown})
	r.Answer("cancel unknown", got, err)
	peer.Stream(r, "subscribe unknown", c.ResubscribeToTask(ctx, &a2a.TaskIDParams{ID: unknown}), nil)
	sent, err := c.SendMessage(ctx, sayOn(a2a.TaskInfo{TaskID: unknown}, "echo hello"))
	r.Answer("send to unknown", sent, err)

	done, err := c.SendMessage(ctx, say("task tea"))
	r.Answer("send", done, err)
	task := taskOf(done)
	got, err = c.CancelTask(ctx, &a2a.TaskIDParams{ID: task.TaskID})
	r.Answer("cancel finished", got, err)
	peer.Stream(r, "subscribe finished", c.ResubscribeToTask(ctx, &a2a.TaskIDParams{ID: task.TaskID}), nil)
	sent, err = c.SendMessage(ctx, sayOn(task, "more"))
	r.Answer("send to finished", sent, err)
}

func headers(ctx context.Context, c *a2aclient.Client, r *peer.Recorder) {
	result, err := c.SendMessage(ctx, say("headers"))
	r.Answer("send", result, err)
}

// push has two addresses told of a task, gives one up and leaves the other to
// whoever listens there until the task is done.
func push(address string) scenario {
	return func(ctx context.Context, c *a2aclient.Client, r *peer.Recorder) {
		request, blocking := say("slow 2000 tea"), false
		request.Config = &a2a.MessageSendConfig{Blocking: &blocking}
		result, err := c.SendMessage(ctx, request)
		r.Accepted("send", result, err)
		task := taskOf(result).TaskID
		for _, id := range []string{"own", "other"} {
			config, err := c.SetTaskPushConfig(ctx, &a2a.TaskPushConfig{TaskID: task, Config: a2a.PushConfig{ID: id, URL: address, Token: peer.PushToken}})
			r.Answer("create push", config, err)
		}
		config, err := c.GetTaskPushConfig(ctx, &a2a.GetTaskPushConfigParams{TaskID: task, ConfigID: "own"})
		r.Answer("get push", config, err)
		list := func() {
			configs, err := c.ListTaskPushConfig(ctx, &a2a.ListTaskPushConfigParams{TaskID: task})
			r.Answer("list push", map[string]any{"configs": configs}, err)
		}
		list()
		err = c.DeleteTaskPushConfig(ctx, &a2a.DeleteTaskPushConfigParams{TaskID: task, ConfigID: "other"})
		r.Answer("delete push", map[string]bool{"deleted": true}, err)
		list()
	}
}

// taskOf names the task of a result, or nothing when there is none.
func taskOf(result a2a.SendMessageResult) a2a.TaskInfo {
	if task, ok := result.(*a2a.Task); ok {
		return task.TaskInfo()
	}
	return a2a.TaskInfo{}
}

// awaitWorking polls until the agent has taken the task up. Nothing of it is
// recorded: how often it must ask depends on the moment.
func awaitWorking(ctx context.Context, c *a2aclient.Client, id a2a.TaskID) {
	for ctx.Err() == nil {
		task, err := c.GetTask(ctx, &a2a.TaskQueryParams{ID: id})
		if err != nil || task.Status.State != a2a.TaskStateSubmitted {
			return
		}
		time.Sleep(pollInterval)
	}
}
