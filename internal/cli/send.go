package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/parley"
)

// maxSentFile is the largest file that send reads, in bytes. What a mesh and
// an agent take is less by default.
const maxSentFile = 64 << 20

// sending is one send command.
type sending struct {
	stream, noWait           bool
	task, context, reference string
	data, files              []string
	timeout                  span
	push, pushToken          string
}

func sendCommand(p *program) *cobra.Command {
	var s sending
	cmd := &cobra.Command{
		Use:   "send AGENT [TEXT]",
		Short: "Send a message to an agent and show what comes back",
		Long: `Send a message to an agent through the mesh and show what comes back. What the
agent says and makes goes to the output, everything else to the error stream.

If the agent asks for more, the question is asked on the terminal and the answer
sent; where there is no terminal, the command ends and says how to answer. TEXT
may be "-" for the input, and may be left out where --data or --file is given.`,
		Example: `  parley send echo "hello"
  parley send writer "a poem about the sea" --stream
  parley send billing "check this" --data order.json --file receipt.pdf
  parley send billing "4711" --task 0a1b2c
  parley --data ./data send echo "hello"
  parley send billing "report" --no-wait --push https://hooks.example.com/parley
  parley send billing "report" --no-wait --reference case-4711 --output json`,
		Args: argumentsBetween(1, "AGENT", "TEXT"),
		RunE: func(cmd *cobra.Command, args []string) error { return p.send(cmd.Context(), &s, args) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&s.stream, "stream", false, "show the answer as it comes")
	flags.BoolVar(&s.noWait, "no-wait", false, "do not wait for the task, only for its id")
	flags.StringVar(&s.task, "task", "", "go on with this task")
	flags.StringVar(&s.context, "context", "", "stay in this context")
	flags.StringVar(&s.reference, "reference", "", "your own name for what the call is about; it stands in the call's record")
	flags.StringArrayVar(&s.data, "data", nil, "JSON file to send as structured data, - for the input (repeatable); the mesh's data directory stands before the verb: parley --data DIR send")
	flags.StringArrayVar(&s.files, "file", nil, "file to send (repeatable)")
	flags.Var(&s.timeout, "timeout", "how long to wait in all, such as 30s; 0 for as long as it takes")
	flags.StringVar(&s.push, "push", "", "URL to which the mesh pushes what happens to the task; see parley push listen")
	flags.StringVar(&s.pushToken, "push-token", "", "token that those pushes carry; a secret of 24 bytes or more also signs them (Standard Webhooks)")
	cmd.MarkFlagsMutuallyExclusive("stream", "no-wait")
	return cmd
}

func (p *program) send(ctx context.Context, s *sending, args []string) error {
	if s.pushToken != "" && s.push == "" {
		return usagef("--push-token belongs to --push, which is missing")
	}
	message, err := p.firstMessage(s, args[1:])
	if err != nil {
		return err
	}
	e, err := p.edge(args[0], s.reference)
	if err != nil {
		return err
	}
	ctx, cancel := within(ctx, time.Duration(s.timeout))
	defer cancel()
	err = p.converse(ctx, s, e, message)
	if err != nil && kindOf(err) != parley.Unauthorized { // calls of nobody known are not on record
		p.failed = e.call()
	}
	return err
}

// converse sends a message, and as long as the agent asks and somebody is
// there to answer, what they answer.
func (p *program) converse(ctx context.Context, s *sending, e *edge, message a2a.Message) error {
	v := newViewer(p)
	for {
		if err := p.turn(ctx, s, e, v, message); err != nil {
			return err
		}
		if v.task.Status.State != a2a.StateInputRequired || p.json() || !p.canAsk() {
			return v.end(e)
		}
		text, err := p.ask(ctx, p.styleOf(p.Err).faint(e.agent+"> "))
		if errors.Is(err, errNoAnswer) || err == nil && text == "" {
			return v.end(e)
		}
		if err != nil {
			return err
		}
		message = newMessage(v.task.ID, v.task.ContextID, a2a.TextPart(text))
		s.push = "" // the task has it
		v.nextTurn()
	}
}

// turn sends one message and shows the answer.
func (p *program) turn(ctx context.Context, s *sending, e *edge, v *viewer, m a2a.Message) error {
	in := a2a.SendMessageRequest{Message: m}
	if s.push != "" {
		in.Configuration = &a2a.SendMessageConfiguration{PushConfig: &a2a.TaskPushNotificationConfig{URL: s.push, Token: s.pushToken}}
	}
	if s.stream {
		stream, err := e.SendStreamingMessage(ctx, in)
		if err != nil {
			return err
		}
		return p.follow(ctx, stream, v)
	}
	if s.noWait {
		if in.Configuration == nil {
			in.Configuration = &a2a.SendMessageConfiguration{}
		}
		in.Configuration.ReturnImmediately = true
	}
	answer, err := e.SendMessage(ctx, in)
	if err != nil {
		return err
	}
	if answer.Task != nil {
		v.task.ID, v.task.ContextID, v.task.Status = answer.Task.ID, answer.Task.ContextID, answer.Task.Status
	}
	return v.answer(answer)
}

// follow shows the events of a stream until it ends.
func (p *program) follow(ctx context.Context, stream *a2a.EventStream, v *viewer) error {
	defer stream.Close()
	for {
		event, err := stream.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = v.event(event)
		}
		if err != nil {
			return errors.Join(err, v.endLine())
		}
	}
}

func newMessage(task, contextID string, parts ...a2a.Part) a2a.Message {
	return a2a.Message{MessageID: uuid.NewString(), Role: a2a.RoleUser, TaskID: task, ContextID: contextID, Parts: parts}
}

// firstMessage makes the message of the command line.
func (p *program) firstMessage(s *sending, text []string) (a2a.Message, error) {
	var parts []a2a.Part
	stdin := 0
	for _, t := range text {
		if t == "-" {
			stdin++
			raw, err := readAll(p.In, "the input", maxSentFile)
			if err != nil {
				return a2a.Message{}, err
			}
			if t = string(raw); t == "" {
				return a2a.Message{}, invalidInput("the input is empty: there is nothing to send")
			}
		}
		if t == "" {
			return a2a.Message{}, usagef("TEXT is empty: say something, or leave it out and give --data or --file")
		}
		parts = append(parts, a2a.TextPart(t))
	}
	for _, path := range s.data {
		if path == "-" {
			stdin++
		}
		part, err := p.dataPart(path)
		if err != nil {
			return a2a.Message{}, err
		}
		parts = append(parts, part)
	}
	for _, path := range s.files {
		part, err := filePart(path)
		if err != nil {
			return a2a.Message{}, err
		}
		parts = append(parts, part)
	}
	switch {
	case stdin > 1:
		return a2a.Message{}, usagef("the input (-) can be sent once")
	case len(parts) == 0:
		return a2a.Message{}, usagef("nothing to send: give TEXT, --data or --file")
	}
	return newMessage(s.task, s.context, parts...), nil
}

func (p *program) dataPart(path string) (a2a.Part, error) {
	var raw []byte
	var err error
	if path == "-" {
		raw, err = readAll(p.In, "the input", maxSentFile)
	} else {
		raw, err = readFile(path, maxSentFile)
	}
	if errors.Is(err, syscall.EISDIR) {
		return a2a.Part{}, usagef("--data %s is a directory, and behind send it names a JSON file: the mesh's data directory stands before the verb: parley --data %s send …", path, shellWord(path))
	}
	if err != nil {
		return a2a.Part{}, invalidInput("--data: %w", err)
	}
	if e := jsonwire.Valid(raw, jsonwire.Limits{MaxBytes: maxSentFile}); e != nil {
		return a2a.Part{}, invalidInput("--data %s is not JSON: %w", path, e)
	}
	part := a2a.DataPart(jsontext.Value(raw))
	part.MediaType = "application/json"
	return part, nil
}

func filePart(path string) (a2a.Part, error) {
	raw, err := readFile(path, maxSentFile)
	if err != nil {
		return a2a.Part{}, invalidInput("--file: %w", err)
	}
	kind := mime.TypeByExtension(filepath.Ext(path))
	if kind == "" {
		kind = http.DetectContentType(raw)
	}
	kind, _, _ = strings.Cut(kind, ";")
	return a2a.FilePart(filepath.Base(path), kind, raw), nil
}

// invalidInput is an error of what a command was given to work on.
func invalidInput(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return parley.E("cli.input", parley.Invalid, "", err.Error(), err)
}
