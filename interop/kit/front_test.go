package main

import (
	"context"
	"testing"
	"time"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/parley-mesh/parley/internal/a2a"
)

// TestFront calls the agent through the front as the kit does, directly and
// through a mesh.
func TestFront(t *testing.T) {
	for _, way := range []string{"direct", "through"} {
		t.Run(way, func(t *testing.T) {
			target, done, err := open(t.Context(), way, []a2a.Binding{a2a.GRPC})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := done(); err != nil {
					t.Error(err)
				}
			}()
			conn, err := grpc.NewClient("passthrough:///"+target.url[len("http://"):], grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+target.token), 20*time.Second)
			defer cancel()
			said, err := pb.NewA2AServiceClient(conn).SendMessage(ctx, &pb.SendMessageRequest{Message: &pb.Message{MessageId: "m", Role: pb.Role_ROLE_USER, Parts: []*pb.Part{{Content: &pb.Part_Text{Text: "hello"}}}}})
			if err != nil || said.GetTask() == nil {
				t.Fatalf("got %v, %v; want a task", said, err)
			}
			if _, err = pb.NewA2AServiceClient(conn).GetTask(ctx, &pb.GetTaskRequest{Id: "no-such-task"}); status.Code(err) != codes.NotFound {
				t.Errorf("got %v, want that there is no such task", err)
			}
		})
	}
}
