package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/parley-mesh/parley/internal/app"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/parley"
)

func storeCommand(p *program) *cobra.Command {
	return parent(&cobra.Command{Use: "store", Short: "Move what a mesh keeps"}, storeCopyCommand(p))
}

func storeCopyCommand(p *program) *cobra.Command {
	var file, to string
	cmd := &cobra.Command{
		Use:   "copy --to postgres://…",
		Short: "Copy everything from SQLite to an empty PostgreSQL database",
		Long: `Copy everything that a mesh keeps from SQLite in its data directory to an empty
PostgreSQL database. The mesh must not run meanwhile. The copy is one transaction:
it is kept only once the number of rows and a hash of every table agree on both
sides, and one that was broken off is begun anew.

Nothing in the data directory changes. Afterwards start the mesh with store set to
the new address; its master key stays where it is.`,
		Example: `  parley store copy --to env:PARLEY_STORE
  parley store copy --data /var/lib/parley --to file:/etc/parley/store`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return usagef("say where to: --to postgres://user:password@host:5432/database")
			}
			cfg, err := p.loadConfig(cmd, file)
			if err != nil {
				return err
			}
			target, err := config.ParseStore(to, p.Env)
			if err != nil {
				return parley.E("store.copy", parley.Invalid, "to", "--to "+err.Error(), nil)
			}
			return p.copyStore(cmd, cfg, target)
		},
	}
	configFlags(cmd, &file)
	// Nothing is served: of the configuration only where it is matters to a reader.
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = f.Name != "data" && f.Name != "config" })
	cmd.Flags().StringVar(&to, "to", "", "the PostgreSQL database, or file:PATH or env:NAME that holds its address")
	return cmd
}

// copiedStore is the result of a copy.
type copiedStore struct {
	From   string        `json:"from"`
	To     string        `json:"to"`
	Rows   int64         `json:"rows"`
	Tables []copiedTable `json:"tables"`
}

type copiedTable struct {
	Table string `json:"table"`
	Rows  int64  `json:"rows"`
	Hash  string `json:"hash"`
}

func (p *program) copyStore(cmd *cobra.Command, cfg *config.Config, to config.Store) error {
	p.remark("copying %s to %s", cfg.Data, to)
	copied, err := app.CopyStore(cmd.Context(), cfg, to, func(table string, done, of int64) {
		p.remark("%-16s %d of %d rows", table, done, of)
	})
	if err != nil {
		return err
	}
	result := copiedStore{From: cfg.Data, To: to.String()}
	for _, c := range copied {
		result.Rows += c.Rows
		result.Tables = append(result.Tables, copiedTable{c.Table, c.Rows, c.Hash})
	}
	return p.done(result, "%d rows of %d tables are copied, counts and hashes agree; from now on start the mesh with store set to %s, and never again with the old one", result.Rows, len(result.Tables), to)
}
