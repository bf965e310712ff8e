package a2a

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// Conn is a typed client of one endpoint. Failures are an *Error where the agent
// gave one, else a *TransportError.
type Conn struct {
	Client   *Client
	Endpoint Endpoint
	Header   http.Header // sent with every call: credentials
}

// SendMessage sends a message and waits for a task or a message.
func (c *Conn) SendMessage(ctx context.Context, in SendMessageRequest) (*SendMessageResponse, error) {
	return call[SendMessageResponse](ctx, c, SendMessage, in)
}

// SendStreamingMessage sends a message and returns the stream of its answer.
func (c *Conn) SendStreamingMessage(ctx context.Context, in SendMessageRequest) (*EventStream, error) {
	return c.stream(ctx, SendStreamingMessage, in)
}

// GetTask reads a task.
func (c *Conn) GetTask(ctx context.Context, in GetTaskRequest) (*Task, error) {
	return call[Task](ctx, c, GetTask, in)
}

// ListTasks reads one page of tasks.
func (c *Conn) ListTasks(ctx context.Context, in ListTasksRequest) (*ListTasksResponse, error) {
	return call[ListTasksResponse](ctx, c, ListTasks, in)
}

// CancelTask asks the agent to give a task up.
func (c *Conn) CancelTask(ctx context.Context, in CancelTaskRequest) (*Task, error) {
	return call[Task](ctx, c, CancelTask, in)
}

// SubscribeToTask follows a task that is not final.
func (c *Conn) SubscribeToTask(ctx context.Context, in SubscribeToTaskRequest) (*EventStream, error) {
	return c.stream(ctx, SubscribeToTask, in)
}

// CreatePushConfig registers where the agent reports a task's progress.
func (c *Conn) CreatePushConfig(ctx context.Context, in TaskPushNotificationConfig) (*TaskPushNotificationConfig, error) {
	return call[TaskPushNotificationConfig](ctx, c, CreatePushConfig, in)
}

// GetPushConfig reads one push configuration.
func (c *Conn) GetPushConfig(ctx context.Context, in PushConfigRequest) (*TaskPushNotificationConfig, error) {
	return call[TaskPushNotificationConfig](ctx, c, GetPushConfig, in)
}

// ListPushConfigs reads one page of a task's push configurations.
func (c *Conn) ListPushConfigs(ctx context.Context, in ListPushConfigsRequest) (*ListPushConfigsResponse, error) {
	return call[ListPushConfigsResponse](ctx, c, ListPushConfigs, in)
}

// DeletePushConfig removes a push configuration; one that is gone is no error.
func (c *Conn) DeletePushConfig(ctx context.Context, in PushConfigRequest) error {
	_, err := call[Empty](ctx, c, DeletePushConfig, in)
	return err
}

// GetExtendedCard reads the card that the agent shows to this caller.
func (c *Conn) GetExtendedCard(ctx context.Context) (*AgentCard, error) {
	return call[AgentCard](ctx, c, GetExtendedCard, GetExtendedCardRequest{})
}

func (c *Conn) do(ctx context.Context, m Method, in any) (*Reply, error) {
	q, err := NewRequest(m, in)
	if err != nil {
		return nil, err
	}
	rep, err := c.Client.Do(ctx, c.Endpoint, q, c.Header)
	if err != nil {
		return nil, err
	}
	if rep.Err != nil {
		return nil, rep.Err
	}
	return rep, nil
}

func call[T any](ctx context.Context, c *Conn, m Method, in any) (*T, error) {
	rep, err := c.do(ctx, m, in)
	if err != nil {
		return nil, err
	}
	out := new(T)
	if err := decodeResult(rep.Result, out); err != nil {
		return nil, fmt.Errorf("%s: %w", m, err)
	}
	return out, nil
}

func decodeResult(raw jsontext.Value, into any) error {
	if problems := jsonwire.UnmarshalAll(raw, into, jsonwire.CheckOptions{Lax: true}); problems != nil {
		return fmt.Errorf("%w: %w", ErrNotA2A, problems[0])
	}
	return nil
}

func (c *Conn) stream(ctx context.Context, m Method, in any) (*EventStream, error) {
	rep, err := c.do(ctx, m, in)
	if err != nil {
		return nil, err
	}
	return &EventStream{rep.Stream}, nil
}

// EventStream is a stream of typed events.
type EventStream struct{ stream Stream }

// Next waits for the next event. It returns io.EOF after the last, an *Error that
// the agent sent, or what else ended the stream.
func (s *EventStream) Next(ctx context.Context) (*StreamResponse, error) {
	f, err := s.stream.Next(ctx)
	if err != nil {
		return nil, err
	}
	if f.Err != nil {
		return nil, f.Err
	}
	out := new(StreamResponse)
	if err := decodeResult(f.Result, out); err != nil {
		return nil, err
	}
	return out, nil
}

// Close ends the stream.
func (s *EventStream) Close() error { return s.stream.Close() }
