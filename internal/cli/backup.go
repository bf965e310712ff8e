package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/app"
	"github.com/parley-mesh/parley/internal/parley"
)

// backupTaken is what is told of a backup.
type backupTaken struct {
	File      string    `json:"file"`
	Bytes     int64     `json:"bytes"`
	Mesh      string    `json:"mesh"`
	Schema    int64     `json:"schema"`
	MadeAt    time.Time `json:"madeAt"`
	MasterKey string    `json:"masterKey,omitempty"` // id of the key that opens it
	Keys      string    `json:"keys,omitempty"`      // file that the key was copied to
}

func backupCommand(p *program) *cobra.Command {
	var to, keys string
	cmd := &cobra.Command{
		Use: "backup --to FILE|DIR", Short: "Take a backup of everything but the keys, while the mesh runs",
		Long: `Take a backup: the state of the mesh as it is at one moment, with every call that
was acknowledged before. The mesh goes on meanwhile; one that does not run is read
from its data directory. The archive is checked before it gets its name, and nothing
is ever replaced.

Keys are kept apart: what is sealed in a backup opens only with the master key.
--keys copies that to a file of its own; keep it where the backups are not.`,
		Example: `  parley backup --to backups/
  parley backup --to mesh.tar --keys mesh.key
  parley --server https://mesh.example.com backup --to mesh.tar`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return usagef("say where to: --to FILE or --to DIR; see %s --help", cmd.CommandPath())
			}
			return p.backup(cmd.Context(), to, keys)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "new file, or directory in which a file is named by mesh and time")
	cmd.Flags().StringVar(&keys, "keys", "", "new file for a copy of the master key, which is read from --data")
	return cmd
}

// backup writes the archive under another name first: one that is there is
// whole.
func (p *program) backup(ctx context.Context, to, keys string) (err error) {
	dir := filepath.Dir(to)
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		dir = to
	} else if err == nil {
		return parley.E("cli.backup", parley.Conflict, "", to+" is there already, and nothing is replaced: name another file", nil)
	}
	f, err := os.CreateTemp(dir, ".parley-backup-*") // 0600 by its contract
	if errors.Is(err, fs.ErrNotExist) {
		return usagef("--to: the directory %s is not there", dir)
	}
	if err != nil {
		return parley.E("cli.backup", parley.Unavailable, "", "cannot write to "+dir+": "+err.Error(), err)
	}
	defer func() { err = errors.Join(err, ignoreGone(os.Remove(f.Name()))) }()
	taken, err := p.fetchBackup(ctx, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if dir == to {
		to = filepath.Join(to, fmt.Sprintf("parley-%.8s-%s.tar", taken.Mesh, taken.MadeAt.Format("20060102T150405Z")))
	}
	// A link, unlike a rename, replaces nothing.
	if err := os.Link(f.Name(), to); err != nil {
		return parley.E("cli.backup", parley.Conflict, "", "the backup cannot get the name "+to+": "+innermost(err).Error(), err)
	}
	taken.File = to
	if keys != "" {
		if err := p.backupKey(taken, keys); err != nil {
			return err
		}
	}
	return p.backupDone(taken)
}

// fetchBackup fills f, puts it on the disk and reads it through.
func (p *program) fetchBackup(ctx context.Context, f *os.File) (*backupTaken, error) {
	counted := &counter{Writer: f}
	stop := p.counting("taking the backup", counted)
	err := p.writeBackup(ctx, counted)
	stop()
	if counted.failed != nil { // the place is at fault, whatever the source says of it
		return nil, parley.E("cli.backup", parley.Unavailable, "", "the backup cannot be written to "+filepath.Dir(f.Name())+": "+innermost(counted.failed).Error(), counted.failed)
	}
	if err != nil {
		return nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	defer p.progress("checking the backup")()
	m, err := app.CheckBackup(ctx, f)
	if err != nil {
		return nil, err
	}
	return &backupTaken{Bytes: counted.n.Load(), Mesh: m.Mesh, Schema: m.Schema, MadeAt: m.MadeAt, MasterKey: m.MasterKey}, nil
}

// writeBackup asks the mesh, or where none runs here reads its directory. One
// that broke off is not gone on with from there.
func (p *program) writeBackup(ctx context.Context, w *counter) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	defer c.Close()
	err = c.Backup(ctx, w)
	if parley.KindOf(err) != parley.Unavailable || err == nil || w.n.Load() > 0 || w.failed != nil || p.flags.server != "" || p.variable("PARLEY_SERVER") != "" {
		return err
	}
	dir, dirErr := p.dataDir()
	if dirErr != nil {
		return err
	}
	return app.BackupStopped(ctx, dir, Version(), p.now(), w)
}

func (p *program) backupKey(taken *backupTaken, keys string) error {
	dir, err := p.dataDir()
	if err != nil {
		return err
	}
	id, err := app.BackupKey(dir, keys)
	if err != nil {
		return fmt.Errorf("the backup is %s, but its key was not copied: %w", taken.File, err)
	}
	if id != taken.MasterKey {
		return errors.Join(parley.E("cli.backup", parley.Invalid, "", fmt.Sprintf("the key in %s has the id %s and does not open the backup, which needs %s: give the data directory of that mesh with --data", dir, id, taken.MasterKey), nil), os.Remove(keys))
	}
	taken.Keys = keys
	return nil
}

func (p *program) backupDone(t *backupTaken) error {
	if err := p.done(t, "backup of mesh %.8s in %s (%d bytes)", t.Mesh, t.File, t.Bytes); err != nil {
		return err
	}
	switch {
	case p.json() || t.MasterKey == "":
	case t.Keys != "":
		p.remark("its master key %s is in %s: keep it somewhere else", t.MasterKey, t.Keys)
	default:
		p.remark("it opens only with the master key %s, which is not in it", t.MasterKey)
	}
	return nil
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func restoreCommand(p *program) *cobra.Command {
	var from, keys string
	cmd := &cobra.Command{
		Use: "restore --from FILE --data DIR", Short: "Make a data directory of a backup",
		Long: `Make a data directory of a backup: everything is checked first, and the directory
appears whole or not at all. One that is not empty, or that a mesh runs on, is never
touched. The mesh that starts there is the one that was backed up: it has its id, and
calls that were open are what they are after a crash.`,
		Example: `  parley restore --from mesh.tar --data restored/
  parley restore --from mesh.tar --keys mesh.key --data restored/
  parley serve --data restored/`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from == "" {
				return usagef("say what to restore: --from FILE; see %s --help", cmd.CommandPath())
			}
			dir, err := p.dataDir()
			if err != nil {
				return err
			}
			return p.restore(cmd.Context(), from, dir, keys)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "the backup")
	cmd.Flags().StringVar(&keys, "keys", "", "file with the master key, to be put into the directory")
	return cmd
}

func (p *program) restore(ctx context.Context, from, dir, keys string) error {
	f, err := os.Open(from)
	if err != nil {
		return usagef("--from: %w", err)
	}
	defer f.Close()
	stop := p.progress("restoring")
	r, err := app.Restore(ctx, f, dir, keys)
	stop()
	if err != nil {
		return err
	}
	if err := p.done(r, "restored mesh %.8s of %s to %s", r.Manifest.Mesh, r.Manifest.MadeAt.Format(time.RFC3339), r.Data); err != nil {
		return err
	}
	if r.KeyNeeded && !p.json() {
		p.remark("before it starts, put the master key %s into %s, readable by you only, or name it with master_key", r.Manifest.MasterKey, filepath.Join(r.Data, "master.key"))
	}
	return nil
}
