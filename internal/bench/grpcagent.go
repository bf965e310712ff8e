package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// ServeGRPCAgent serves an A2A v1.0 agent that speaks gRPC, and its card over
// HTTP, until ctx ends. Printed are the card's base address and the gRPC
// address, host:port. It answers as an Agent that replies with messages does.
func ServeGRPCAgent(ctx context.Context, out io.Writer) error {
	grpcListener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	address := grpcListener.Addr().String()
	card := newCard(RepliesMessage, "")
	card.SupportedInterfaces = []cardInterface{{URL: "http://" + address, ProtocolBinding: "GRPC", ProtocolVersion: "1.0"}}
	text, err := json.Marshal(card)
	if err != nil {
		return fmt.Errorf("encode agent card: %w", err)
	}
	serveCard := http.NewServeMux()
	serveCard.HandleFunc("GET /.well-known/agent-card.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(text) // a caller that has gone needs no card
	})
	agent := &grpcAgent{prefix: newPrefix()}
	return serveGRPC(ctx, out, grpcListener, agent.answer, func(string) (http.Handler, error) { return serveCard, nil })
}

// serveGRPC serves every call on listener with answer, and handlers as Serve
// does, until ctx ends. The gRPC address is the last that is printed.
func serveGRPC(ctx context.Context, out io.Writer, listener net.Listener, answer grpc.StreamHandler, handlers ...func(string) (http.Handler, error)) error {
	server := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(answer))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := server.Serve(listener); err != nil {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		server.Stop()
		return nil
	})
	group.Go(func() error { return serveAll(ctx, out, []string{listener.Addr().String()}, handlers...) })
	return group.Wait()
}

// grpcAgent is the agent behind the gRPC paths.
type grpcAgent struct {
	prefix string // of every id the agent makes, random per process
	made   atomic.Uint64
}

// answer implements grpc.StreamHandler.
func (a *grpcAgent) answer(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	switch method {
	case grpcSend, grpcStream:
	case grpcGet, grpcCancel:
		return noTask()
	default:
		return status.Error(codes.Unimplemented, "unknown method")
	}
	md, _ := metadata.FromIncomingContext(stream.Context())
	if version := md.Get("a2a-version"); len(version) != 1 || version[0] != "1.0" {
		return status.Error(codes.FailedPrecondition, "send a2a-version 1.0")
	}
	var request rawFrame
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	request.data.Free()
	id := string(appendHex([]byte(a.prefix), a.made.Add(1)))
	if method == grpcSend {
		return stream.SendMsg(frameOf(grpcMessage(id)))
	}
	for i := range StreamEvents {
		if err := stream.SendMsg(frameOf(grpcEvent(id, i))); err != nil {
			return err
		}
	}
	return nil
}

// noTask is the answer to whoever asks for a task: the agent keeps none.
func noTask() error {
	plain := status.New(codes.NotFound, "this agent keeps no tasks")
	detailed, err := plain.WithDetails(&errdetails.ErrorInfo{Reason: "TASK_NOT_FOUND", Domain: "a2a-protocol.org"})
	if err != nil {
		return plain.Err()
	}
	return detailed.Err()
}

// The parts with a text of replies and of pieces.
var replyPart, piecePart = textPart(filler(replyTextBytes)), textPart(filler(pieceTextBytes))

// grpcMessage is the reply to SendMessage.
func grpcMessage(id string) []byte {
	message := appendStringField(make([]byte, 0, 1<<10), messageID, "m-"+id)
	message = appendStringField(message, messageContext, "c-"+id)
	message = appendNumberField(message, messageRole, roleAgent)
	message = appendMessageField(message, messageParts, replyPart)
	return appendMessageField(nil, replyMessage, message)
}

// grpcEvent is the i-th event of a stream: the task, pieces of one artifact,
// the final status.
func grpcEvent(id string, i int) []byte {
	state := func(state uint64) []byte { return appendNumberField(nil, statusState, state) }
	event := appendStringField(nil, taskID, "t-"+id)
	event = appendStringField(event, taskContext, "c-"+id)
	switch i {
	case 0:
		return appendMessageField(nil, replyTask, appendMessageField(event, taskStatus, state(stateWorking)))
	case StreamEvents - 1:
		return appendMessageField(nil, replyStatus, appendMessageField(event, taskStatus, state(stateCompleted)))
	}
	artifact := appendStringField(nil, artifactID, "answer")
	artifact = appendMessageField(artifact, artifactParts, piecePart)
	event = appendMessageField(event, updateArtifact, artifact)
	if i > 1 {
		event = appendNumberField(event, updateAppend, 1)
	}
	return appendMessageField(nil, replyArtifact, event)
}
