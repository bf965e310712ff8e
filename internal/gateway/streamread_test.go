package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/metadata"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/parleytest"
	"github.com/parley-mesh/parley/internal/stream"
)

// unread opens the stream of a task over a connection that takes little before
// somebody reads it.
func unread(t *testing.T, m *parleytest.Mesh, key, taskID string) *parleytest.SSE {
	t.Helper()
	conn, err := net.Dial("tcp", m.Config.Listen)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).SetReadBuffer(128 << 10); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m.URL("agent")+"tasks/"+taskID+":subscribe", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer " + key}, "A2a-Version": {"1.0"}}
	if err := req.Write(conn); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the connection first: closing the body would read the rest
		_ = conn.Close()
		_ = resp.Body.Close()
	})
	s := &parleytest.SSE{Status: resp.StatusCode, Lines: bufio.NewScanner(resp.Body)}
	s.Lines.Buffer(nil, 16<<20)
	return s
}

// TestReaderThatDoesNotRead is cut once it is too far behind, while another one
// goes on; it goes on behind what it has read, and misses nothing.
func TestReaderThatDoesNotRead(t *testing.T) {
	const pieces = 48 // of 256 KiB: more than a connection takes for nobody, and than the limit
	m, agent := start(t, func(c *config.Config) {
		c.Watch.First, c.Limits.StreamBuffer, c.Limits.StreamWriteTimeout = time.Hour, 1<<20, time.Hour
		c.Retention.JournalSize = 64 << 20
	})
	key := m.Key("alice", "")
	frames := make(chan a2a.Frame)
	agent.Answer(streams(frames))
	id := fresh("t")
	go func() { frames <- taskFrame(task(id, "c", a2a.StateWorking)) }()
	fast := sendStream(t, m, key)
	fast.Must()
	slow := unread(t, m, key, id)
	padding := strings.Repeat("x", 256<<10)
	var want []string
	for i := range pieces {
		name := fmt.Sprintf("piece %02d ", i)
		want = append(want, name)
		frames <- chunk(id, name+padding)
		wantTexts(t, "who reads", []parleytest.Event{{Data: strings.Replace(fast.Must().Data, padding, "", 1)}}, name)
	}

	got := slow.Rest()
	last := got[len(got)-1]
	if len(got) > pieces || !strings.Contains(last.Data, "UNAVAILABLE") || !strings.Contains(last.Data, "Last-Event-ID") {
		t.Fatalf("who does not read got %d events, the last one %.300s", len(got), last.Data)
	}
	got = got[:len(got)-1]
	resumed := subscribe(t, m, key, id, got[len(got)-1].ID)
	for len(got) < pieces+1 {
		got = append(got, resumed.Must())
	}
	for i := range got {
		got[i].Data = strings.Replace(got[i].Data, padding, "", 1)
	}
	wantTexts(t, "who was cut and goes on", got, append([]string{"task TASK_STATE_WORKING"}, want...)...)
	frames <- status(id, "c", a2a.StateCompleted)
	close(frames)
	wantTexts(t, "the end for who reads", fast.Rest(), "TASK_STATE_COMPLETED")
	wantTexts(t, "the end for who goes on", resumed.Rest(), "TASK_STATE_COMPLETED")
}

// TestManyReadersOneStream: the agent sees one stream, and all its readers the
// same events in the same order.
func TestManyReadersOneStream(t *testing.T) {
	m, agent := start(t, func(c *config.Config) { c.Watch.First = time.Hour })
	key := m.Key("alice", "")
	frames := make(chan a2a.Frame, 64)
	var opened atomic.Int64
	agent.Answer(func(ctx context.Context, q *a2a.Request) *a2a.Reply {
		opened.Add(1)
		return streams(frames)(ctx, q)
	})
	id := fresh("t")
	frames <- taskFrame(task(id, "c", a2a.StateWorking))
	first := sendStream(t, m, key)
	first.Must()
	var readers [50]*parleytest.SSE
	for i := range readers {
		readers[i] = subscribe(t, m, key, id, "")
		wantTexts(t, "a reader's first event", []parleytest.Event{readers[i].Must()}, "task TASK_STATE_WORKING")
	}
	for i := range 30 {
		frames <- chunk(id, fmt.Sprint(i))
	}
	frames <- status(id, "c", a2a.StateCompleted)
	close(frames)
	var told [len(readers)][]parleytest.Event
	var reading sync.WaitGroup
	for i, r := range readers {
		reading.Go(func() { told[i] = r.Rest() })
	}
	want := first.Rest()
	reading.Wait()
	if len(want) != 31 {
		t.Fatalf("the first reader got %d events, want 31", len(want))
	}
	for i := range told {
		if !reflect.DeepEqual(told[i], want) {
			t.Errorf("reader %d got %q, want %q", i, texts(told[i]), texts(want))
		}
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("the agent was asked for %d streams, want 1", n)
	}
}

// TestGapIsStated: to who comes back behind an event that retention has taken,
// the task as it is stands for what is gone, and says so. Where the journal does
// not tell the task any more, that is an error.
func TestGapIsStated(t *testing.T) {
	m, agent := start(t, func(c *config.Config) { c.Watch.First, c.Retention.JournalEvents = time.Hour, 16 })
	key := m.Key("alice", "")
	frames := make(chan a2a.Frame, 64)
	agent.Answer(streams(frames))
	id := fresh("t")
	whole := func(text string) a2a.Frame {
		tk := task(id, "c", a2a.StateWorking)
		tk.Artifacts = []a2a.Artifact{{ArtifactID: "a", Parts: []a2a.Part{a2a.TextPart(text)}}}
		return taskFrame(tk)
	}
	frames <- whole("begun ")
	reader := sendStream(t, m, key)
	begun := reader.Must()
	more := func() {
		for range 20 {
			frames <- chunk(id, ".")
			reader.Must()
		}
	}
	more()
	lost := subscribe(t, m, key, id, begun.ID)
	if lost.Lines.Scan(); lost.Status != http.StatusServiceUnavailable || !strings.Contains(lost.Lines.Text(), "not kept any more") {
		t.Errorf("a journal without the task: status %d, %s", lost.Status, lost.Lines.Text())
	}
	lost.Close()
	frames <- whole("again ")
	frames <- chunk(id, "and on")
	reader.Must()
	last := reader.Must()
	resumed := subscribe(t, m, key, id, begun.ID)
	gap := resumed.Must()
	wantTexts(t, "what stands for the gap", []parleytest.Event{gap}, "task TASK_STATE_WORKING again and on")
	if want := `"` + stream.GapKey + `":{"after":1,"next":24}`; !strings.Contains(gap.Data, want) || gap.ID != last.ID {
		t.Errorf("the gap is told as %+v, want %s", gap, want)
	}
	frames <- status(id, "c", a2a.StateCompleted)
	close(frames)
	wantTexts(t, "behind the gap", resumed.Rest(), "TASK_STATE_COMPLETED")
}

// TestStreamGoesOnInGRPC: the first event's id is a header, and metadata goes on
// behind any.
func TestStreamGoesOnInGRPC(t *testing.T) {
	m, agent := start(t, func(c *config.Config) { c.Watch.First = time.Hour })
	key := m.Key("alice", "")
	frames := make(chan a2a.Frame, 8)
	agent.Answer(streams(frames))
	id := fresh("t")
	frames <- taskFrame(task(id, "c", a2a.StateWorking))
	for _, text := range []string{"one", "two", "three"} {
		frames <- chunk(id, text)
	}
	ctx, leave := context.WithCancel(withKey(t.Context(), key))
	sent, err := stock(t, m).SendStreamingMessage(ctx, &a2apb.SendMessageRequest{Tenant: "agents.agent", Message: &a2apb.Message{
		MessageId: fresh("m"), Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "x"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := sent.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	header, err := sent.Header()
	if err != nil || len(header.Get("parley-event-id")) != 1 {
		t.Fatalf("headers %v, %v", header, err)
	}
	leave()
	mark, first, _ := strings.Cut(header.Get("parley-event-id")[0], "-")
	if first != "1" {
		t.Errorf("the first event's id ends with %q", first)
	}
	ctx = metadata.AppendToOutgoingContext(withKey(t.Context(), key), "last-event-id", mark+"-2")
	resumed, err := stock(t, m).SubscribeToTask(ctx, &a2apb.SubscribeToTaskRequest{Tenant: "agents.agent", Id: id})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"two", "three"} {
		got, err := resumed.Recv()
		if err != nil || got.GetArtifactUpdate().GetArtifact().GetParts()[0].GetText() != want {
			t.Errorf("got %v, %v, want %s", got, err, want)
		}
	}
	if header, err := resumed.Header(); err != nil || fmt.Sprint(header.Get("parley-event-id")) != "["+mark+"-3]" {
		t.Errorf("headers of the resumed stream %v, %v", header, err)
	}
	frames <- status(id, "c", a2a.StateCompleted)
	close(frames)
	if got, err := resumed.Recv(); err != nil || got.GetStatusUpdate().GetStatus().GetState() != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("the end: %v, %v", got, err)
	}
}
