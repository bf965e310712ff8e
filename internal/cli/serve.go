package cli

import (
	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/app"
)

func serveCommand(p *program) *cobra.Command {
	var file, ready string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the mesh: the edge, the control API and the operations listener",
		Long: `Serve the mesh until SIGTERM or Ctrl-C, then finish what is under way and stop.

Everything is kept in one data directory. The first start makes it, with a
master key and an admin key; only the path of the latter is printed.`,
		Example: `  parley serve
  parley serve --config parley.yaml
  parley serve --data ./data --listen 127.0.0.1:0 --ready-file ready.json
  parley serve --allow-network 10.20.0.0/16`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := p.loadConfig(cmd, file)
			if err != nil {
				return err
			}
			return app.Serve(cmd.Context(), cfg, app.Options{ReadyFile: ready, LogTo: p.Err, Version: Version()})
		},
	}
	configFlags(cmd, &file)
	cmd.Flags().StringVar(&ready, "ready-file", "", "write the addresses here as JSON once everything answers")
	return cmd
}
