package main

import (
	"context"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"

	"github.com/parley-mesh/parley/interop/go/peer"
)

// unknownTask is an id no agent has given out.
const unknownTask = a2a.TaskID(peer.UnknownTask)

// unknownExtension stands for an extension neither side has heard of.
const unknownExtension = "https://extensions.invalid/unknown/v1"

var scenarioNames = []string{"send", "stream", "get", "list", "cancel", "subscribe", "input", "files", "errors", "headers"}

type scenario func(context.Context, *a2aclient.Client, *peer.Recorder)

var scenarios = map[string]scenario{
	"send":      send,
	"stream":    stream,
	"get":       get,
	"list":      list,
	"cancel":    cancel,
	"subscribe": subscribe,
	"input":     input,
	"files":     files,
	"errors":    failures,
	"headers":   headers,
}

func say(words string) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(words))}
}

// sayOn is a further message on a task.
func sayOn(task a2a.TaskInfo, words string) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: a2a.NewMessageForTask(a2a.MessageRoleUser, task, a2a.NewTextPart(words))}
}

// decorated carries metadata and an extension that nobody on the way knows.
func decorated(words string) *a2a.SendMessageRequest {
	request := say(words)
	request.Message.Extensions = []string{unknownExtension}
	request.Message.Metadata = map[string]any{
		unknownExtension: map[string]any{"Level": 3, "tags": []any{"a", "b"}, "nested": map[string]any{"x_y": true}},
	}
	request.Metadata = map[string]any{"reference": "order-1"}
	return request
}

// sayOne is the scenario of a single message.
func sayOne(words string, streamed bool) scenario {
	return func(ctx context.Context, c *a2aclient.Client, r *peer.Recorder) {
		if streamed {
			peer.Stream(r, "say", c.SendStreamingMessage(ctx, say(words)), nil)
			return
		}
		result, err := c.SendMessage(ctx, say(words))
		r.Answer("say", result, err)
	}
}

func send(ctx context.Context, c *a2aclient.Client, r *peer.Recorder) {
	data := say("data")
	data.Message.Parts = append(data.Message.Parts,
		a2a.NewDataPart(map[string]any{"a": []any{1, 2.5, nil, "ü"}, "empty": map[string]any{}}))
	for _, request := range []*a2a.SendMessageRequest{
		decorated("echo hello ünï"), decorated("task tea"), data, say(`data {"n":1}`), say("fail no milk"), say("reject no tea"),
	} {
		result, err := c.SendMessage(ctx, request)
		r.Answer("send", result, err)
	}
}

func stream(ctx context.Context, c *a2aclient.Client, r *peer.Recorder) {
	for _, request := range []*a2a.SendMessageRequest{decorated("task tea"), say("slow 40 coffee"), decorated("echo hello"), say("fail no milk")} {
		peer.Stream(r, "stream", c.SendStreamingMessage(ctx, request), nil)
	}
}

func get(ctx context.Context, c *a2aclient.Client, r *peer.Recorder) {
	result, err := c.SendMessage(ctx, say("task tea"))
	r.Answer("send", result, err)
	id := taskOf(result).TaskID
	none, one := 0, 1
	for _, length := range []*int{nil, &none, &one} {
		task, err := c.GetTask(ctx, &a2a.GetTaskRequest{ID: id, HistoryLength: length})
		r.Answer("get", task, err)
	}
}

func list(ctx context.Context, c *a2aclient.Client, r *peer.Recorder) {
	first, err := c.SendMessage(ctx, say("task first"))
	r.Answer("send", first, err)
	again := say("task second")
	again.Message.ContextID = taskOf(first).ContextID
	second, err := c.SendMessage(ctx, again)
	r.Answer("send", second, err)

	query := a2a.ListTasksRequest{ContextID: again.Message.ContextID, PageSize: 1}
	for range 3 { // one more than there are pages, should an agent never end them
		page, err := c.ListTasks(ctx, &query)
		r.Answer("list", page, err)
		if err != nil || page.NextPageToken == "" {
			break
		}
		query.PageToken = page.NextPageToken
	}
	whole, err := c.ListTasks(ctx, &a2a.ListTasksRequest{
		ContextID: again.Message.ContextID, Status: a2a.TaskStateCompleted, IncludeArtifacts: true,
	})
	r.Answer("list", whole, err)
	empty, err := c.ListTasks(ctx, &a2a.ListTasksRequest{ContextID: again.Message.ContextID, Status: a2a.TaskStateFailed})
	r.Answer("list", empty, err)
}

func cancel(ctx context.Context, c *a2aclient.Client, r *peer.Recorder) {
	request := say("slow 60000 long")
	request.Config = &a2a.SendMessageConfig{ReturnImmediately: true}
	result, err := c.SendMessage(ctx, request)
	r.Accepted("send", result, err)
	id := taskOf(result).TaskID
	awaitWorking(ctx, c, id)
	task, err := c.CancelTask(ctx, &a2a.CancelTaskRequest{ID: id})
	r.Answer("cancel", task, err)
	task, err = c.GetTask(ctx, &a2a.GetTaskRequest{ID: id})
	r.Answer("get", task, err)
}

// subscribe leaves its first stream while the task works, comes back by a
// subscription, and ends the task from outside once that has begun.
func subscribe(ctx context.Context, c *a2aclient.Client, r *peer.Recorder) {
	var task a2a.TaskInfo
	peer.Stream(r, "stream", c.SendStreamingMessage(ctx, say("slow 60000 long")), func(e a2a.Event) bool {
		task = e.TaskInfo()
		update, ok := e.(*a2a.TaskStatusUpdateEvent)
		return !ok || update.Status.State != a2a.TaskStateWorking
	})
	var canceled *a2a.Task
	var err error
	peer.Stream(r, "subscribe", c.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: task.TaskID}), func(a2a.Event) bool {
		if canceled == nil && err == nil {
			canceled, err = c.CancelTask(ctx, &a2a.CancelTaskRequest{ID: task.TaskID})
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
	raw := a2a.NewRawPart([]byte{0, 1, 254, 255})
	raw.Filename, raw.MediaType = "note.bin", "application/octet-stream"
	link := a2a.NewFileURLPart("https://files.invalid/tea.png", "image/png")
	link.Filename = "tea.png"
	request := say("file")
	request.Message.Parts = append(request.Message.Parts, raw, link)
	result, err := c.SendMessage(ctx, request)
	r.Answer("send", result, err)
	request = say("file")
	request.Message.Parts = append(request.Message.Parts, raw)
	peer.Stream(r, "stream", c.SendStreamingMessage(ctx, request), nil)
}

func failures(ctx context.Context, c *a2aclient.Client, r *peer.Recorder) {
	got, err := c.GetTask(ctx, &a2a.GetTaskRequest{ID: unknownTask})
	r.Answer("get unknown", got, err)
	got, err = c.CancelTask(ctx, &a2a.CancelTaskRequest{ID: unknownTask})
	r.Answer("cancel unknown", got, err)
	peer.Stream(r, "subscribe unknown", c.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: unknownTask}), nil)
	sent, err := c.SendMessage(ctx, sayOn(a2a.TaskInfo{TaskID: unknownTask}, "echo hello"))
	r.Answer("send to unknown", sent, err)

	done, err := c.SendMessage(ctx, say("task tea"))
	r.Answer("send", done, err)
	task := taskOf(done)
	awaitPutAway(ctx, c, task.TaskID)
	got, err = c.CancelTask(ctx, &a2a.CancelTaskRequest{ID: task.TaskID})
	r.Answer("cancel finished", got, err)
	peer.Stream(r, "subscribe finished", c.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: task.TaskID}), nil)
	sent, err = c.SendMessage(ctx, sayOn(task, "more"))
	r.Answer("send to finished", sent, err)
}

func headers(ctx context.Context, c *a2aclient.Client, r *peer.Recorder) {
	ctx = a2aclient.AttachServiceParams(ctx, a2aclient.ServiceParams{a2a.SvcParamExtensions: {unknownExtension}})
	result, err := c.SendMessage(ctx, say("headers"))
	r.Answer("send", result, err)
}

// push has two addresses told of a task, gives one up and leaves the other to
// whoever listens there until the task is done.
func push(address string) scenario {
	return func(ctx context.Context, c *a2aclient.Client, r *peer.Recorder) {
		request := say("slow 2000 tea")
		request.Config = &a2a.SendMessageConfig{ReturnImmediately: true}
		result, err := c.SendMessage(ctx, request)
		r.Accepted("send", result, err)
		task := taskOf(result).TaskID
		for _, id := range []string{"own", "other"} {
			config, err := c.CreateTaskPushConfig(ctx, &a2a.PushConfig{TaskID: task, ID: id, URL: address, Token: peer.PushToken})
			r.Answer("create push", config, err)
		}
		config, err := c.GetTaskPushConfig(ctx, &a2a.GetTaskPushConfigRequest{TaskID: task, ID: "own"})
		r.Answer("get push", config, err)
		list := func() {
			configs, err := c.ListTaskPushConfigs(ctx, &a2a.ListTaskPushConfigRequest{TaskID: task})
			r.Answer("list push", map[string]any{"configs": configs}, err)
		}
		list()
		err = c.DeleteTaskPushConfig(ctx, &a2a.DeleteTaskPushConfigRequest{TaskID: task, ID: "other"})
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

// pollInterval is the pause between two looks at a task.
const pollInterval = 20 * time.Millisecond

// awaitWorking polls until the agent has taken the task up. Nothing of it is
// recorded: how often it must ask depends on the moment.
func awaitWorking(ctx context.Context, c *a2aclient.Client, id a2a.TaskID) {
	for ctx.Err() == nil {
		task, err := c.GetTask(ctx, &a2a.GetTaskRequest{ID: id})
		if err != nil || task.Status.State != a2a.TaskStateSubmitted {
			return
		}
		time.Sleep(pollInterval)
	}
}

// awaitPutAway polls until a finished task cannot be subscribed to. The Go
// SDK's agent answers a moment before it is done with the task, and until then
// takes it for one that still runs. Agents of version 0.3 may never refuse: after
// some tries it is taken as it is. Nothing of it is recorded.
func awaitPutAway(ctx context.Context, c *a2aclient.Client, id a2a.TaskID) {
	refused := false
	for try := 0; try < putAwayTries && !refused && ctx.Err() == nil; try++ {
		for _, err := range c.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: id}) {
			refused = refused || err != nil
		}
		if !refused {
			time.Sleep(pollInterval)
		}
	}
}

// putAwayTries bounds awaitPutAway to about five seconds.
const putAwayTries = 100
