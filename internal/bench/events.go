package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// eachEvent calls visit with the data of every server-sent event in r until
// the content ends. Comments and other fields are skipped; several data lines
// are joined by a line feed. The data is valid during the call only.
func eachEvent(r *bufio.Reader, visit func(data []byte) error) error {
	var data []byte
	seen := false
	for {
		line, err := r.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0 && !seen:
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("event stream ends inside an event: %w", io.ErrUnexpectedEOF)
		case err != nil:
			return fmt.Errorf("read event stream: %w", err)
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			if seen {
				if err := visit(data); err != nil {
					return err
				}
			}
			data, seen = data[:0], false
			continue
		}
		value, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue
		}
		if seen {
			data = append(data, '\n')
		}
		data, seen = append(data, bytes.TrimPrefix(value, []byte(" "))...), true
	}
}
