package control

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/parley-mesh/parley/internal/parley"
)

// BackupType is the content type of a backup.
const BackupType = "application/x-tar"

const backupPath = "/backup"

// Backups makes copies of what the mesh holds.
type Backups interface {
	// PrepareBackup copies what the mesh holds at one moment; write sends it, and
	// discard takes the copy away.
	PrepareBackup(ctx context.Context) (write func(context.Context, io.Writer) error, discard func() error, err error)
}

func (s *Server) backupRoutes() {
	op := operation("backup", "GET", backupPath, "Take a backup of everything but the keys", 200)
	op.Description = "A tar archive: manifest.json, then the database as it was at one moment. What is sealed in it stays sealed. One at a time."
	op.Responses = map[string]*huma.Response{
		"200":     {Description: "The archive. One that is cut off has no end mark and fails its checks.", Content: map[string]*huma.MediaType{BackupType: {Schema: &huma.Schema{Type: "string", Format: "binary"}}}},
		"default": {Description: "Error", Content: map[string]*huma.MediaType{ProblemType: {Schema: &huma.Schema{Ref: "#/components/schemas/Problem"}}}},
	}
	route(s, op, func(ctx context.Context, _ *empty) (*streamOutput, error) {
		select {
		case s.copying <- struct{}{}:
		default:
			return nil, parley.E("control.backup", parley.Exhausted, "", "another backup is being taken: try again when it is done", nil)
		}
		write, discard, err := s.opts.Backup.PrepareBackup(ctx)
		if err != nil {
			<-s.copying
			return nil, err
		}
		return &streamOutput{Body: func(hctx huma.Context) {
			defer func() {
				if err := discard(); err != nil {
					s.log(ctx, op.OperationID, err)
				}
				<-s.copying
			}()
			r, w := humago.Unwrap(hctx)
			w.Header().Set("Content-Type", BackupType)
			w.WriteHeader(http.StatusOK)
			conn := http.NewResponseController(w)
			// A reader that has seen the beginning does not ask again by itself. One
			// that has left is seen by the writing.
			_ = conn.Flush()
			if err := write(r.Context(), &timedWriter{w, conn}); err != nil && r.Context().Err() == nil {
				s.log(r.Context(), op.OperationID, err)
				panic(http.ErrAbortHandler) // so that the reader sees a broken end
			}
		}}, nil
	})
}

// timedWriter gives the reader writeTimeout for each piece.
type timedWriter struct {
	io.Writer
	conn *http.ResponseController
}

// Write implements io.Writer.
func (w *timedWriter) Write(p []byte) (int, error) {
	// A writer that knows no deadlines is not a connection.
	_ = w.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	n, err := w.Writer.Write(p)
	_ = w.conn.SetWriteDeadline(time.Time{})
	return n, err
}

// Backup writes a backup of everything but the keys to w. An error means that
// what was written is no backup.
func (c *Client) Backup(ctx context.Context, w io.Writer) error {
	r := request{op: "control.backup", method: http.MethodGet, path: backupPath, header: http.Header{"Accept": {BackupType + ", " + ProblemType}}}
	resp, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
		if err != nil {
			return c.lost(ctx, r.op, err)
		}
		return c.failed(r.op, resp, body, nil)
	}
	if _, err := io.Copy(w, resp.Body); err != nil {
		if ctx.Err() != nil {
			return contextError(r.op, ctx)
		}
		return parley.E(r.op, parley.Unavailable, "", "the backup broke off: take it again", err)
	}
	return nil
}
