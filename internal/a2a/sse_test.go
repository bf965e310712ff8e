package a2a

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func readEvents(r io.Reader, limit int) (events []string, err error) {
	s := newSSEReader(r, limit)
	for {
		event, data, err := s.next()
		if err != nil {
			return events, err
		}
		events = append(events, event+"|"+string(data))
	}
}

func TestSSEReader(t *testing.T) {
	tests := []struct {
		name, in string
		want     []string
	}{
		{"one", "data: a\n\n", []string{"|a"}},
		{"without space", "data:a\n\n", []string{"|a"}},
		{"only one space goes", "data:  a\n\n", []string{"| a"}},
		{"two lines", "data: a\ndata: b\n\n", []string{"|a\nb"}},
		{"empty data is an event", "data\n\n", []string{"|"}},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"|a", "|b"}},
		{"two lines with CRLF", "data: a\r\ndata: b\r\n\r\n", []string{"|a\nb"}},
		{"CR", "data: a\r\rdata: b\r\r", []string{"|a", "|b"}},
		{"type", "event: error\ndata: x\n\ndata: y\n\n", []string{"error|x", "|y"}},
		{"type without data is dropped", "event: error\n\ndata: y\n\n", []string{"|y"}},
		{"comments, ids, retries", ": hi\n\nid: 7\nretry: 10\n: there\ndata: x\n\n", []string{"|x"}},
		{"unknown field", "foo: bar\ndata: x\n\n", []string{"|x"}},
		{"byte order mark", "\xef\xbb\xbfdata: x\n\n", []string{"|x"}},
		{"cut event is dropped", "data: a\n\ndata: b\n", []string{"|a"}},
		{"cut line is dropped", "data: a\n\ndata: b", []string{"|a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := readEvents(strings.NewReader(tt.in), 100)
			if diff := cmp.Diff(tt.want, got); diff != "" || err != io.EOF {
				t.Errorf("%q: %v (-want +got)\n%s", tt.in, err, diff)
			}
			got, err = readEvents(iotest.OneByteReader(strings.NewReader(tt.in)), 100)
			if diff := cmp.Diff(tt.want, got); diff != "" || err != io.EOF {
				t.Errorf("byte by byte %q: %v (-want +got)\n%s", tt.in, err, diff)
			}
		})
	}
}

func TestSSELimits(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, in := range []string{"data: " + long + "\n\n", strings.Repeat("data: xxxxxxxx\n", 20) + "\n", strings.Repeat("foo: x\n", 50) + "\n", ": " + long} {
		if _, err := readEvents(strings.NewReader(in), 100); !errors.Is(err, errFrameTooLarge) {
			t.Errorf("%.30q…: %v, want %v", in, err, errFrameTooLarge)
		}
	}
	silence := strings.Repeat(": keep-alive\n\n", 1000) + "data: x\n\n"
	if got, err := readEvents(strings.NewReader(silence), 100); err != io.EOF || len(got) != 1 {
		t.Errorf("many comments: %v, %v", got, err)
	}
	for _, nothing := range []string{": nothing\n", "\n", "event: x\n\n", "id: 1\r"} {
		endless := io.MultiReader(strings.NewReader(strings.Repeat(nothing, 2*maxBetween/len(nothing))), strings.NewReader("data: x\n\n"))
		if got, err := readEvents(endless, 100); !errors.Is(err, errFrameTooLarge) || len(got) > 0 {
			t.Errorf("%q without end: %v, %v", nothing, got, err)
		}
	}
}

// What is written as one event is read as one event.
func FuzzSSE(f *testing.F) {
	f.Add([]byte("data: a\n\n: c\nevent: error\ndata: b\r\rdata: c"))
	f.Add([]byte("{\"a\":\r\n1}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		events, err := readEvents(bytes.NewReader(in), 1<<10)
		if err != io.EOF && !errors.Is(err, errFrameTooLarge) {
			t.Fatalf("reading %q: %v", in, err)
		}
		slow, errSlow := readEvents(iotest.OneByteReader(bytes.NewReader(in)), 1<<10)
		if diff := cmp.Diff(events, slow); diff != "" || !errors.Is(err, errSlow) {
			t.Fatalf("%q depends on how it arrives (%v, %v):\n%s", in, err, errSlow, diff)
		}
		var buf bytes.Buffer
		writeData(&buf, in)
		_, data, err := newSSEReader(&buf, 1<<20).next()
		want := strings.ReplaceAll(strings.ReplaceAll(string(in), "\r\n", "\n"), "\r", "\n")
		if err != nil || string(data) != want {
			t.Fatalf("%q written and read gives %q, %v", in, data, err)
		}
	})
}
