package cli

import (
	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/parley"
)

// configFlags gives a verb the flags of the configuration; file takes the
// value of --config.
func configFlags(cmd *cobra.Command, file *string) {
	config.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(file, "config", "", "YAML file with the configuration (or PARLEY_CONFIG)")
}

// loadConfig reads the configuration that a command line, the environment and
// a file make together.
func (p *program) loadConfig(cmd *cobra.Command, file string) (*config.Config, error) {
	if file == "" {
		file = p.variable("PARLEY_CONFIG")
	}
	if dir := p.flags.data; dir != "" && !cmd.Flags().Changed("data") { // it stood before the verb
		if err := cmd.Flags().Set("data", dir); err != nil {
			return nil, usagef("--data: %w", err)
		}
	}
	cfg, err := config.Load(config.Options{File: file, Env: p.Env, Flags: cmd.Flags()})
	if err != nil {
		return nil, parley.E("config.load", parley.Invalid, "", err.Error(), nil)
	}
	return cfg, nil
}

func configCommand(p *program) *cobra.Command {
	return parent(&cobra.Command{Use: "config", Short: "Look at the configuration"}, configPrintCommand(p))
}

func configPrintCommand(p *program) *cobra.Command {
	var file string
	var effective bool
	cmd := &cobra.Command{
		Use:   "print --effective",
		Short: "Print the configuration that serve would run with, and where each value comes from",
		Long:  "Print the configuration as YAML, or with --output json as a list of keys with value\nand origin. Secrets are printed as [redacted].",
		Example: `  parley config print --effective
  parley config print --effective --config parley.yaml`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !effective {
				return usagef("say --effective: only the configuration as a whole can be printed")
			}
			cfg, err := p.loadConfig(cmd, file)
			if err != nil {
				return err
			}
			if p.json() {
				return p.document(cfg.Effective())
			}
			return cfg.WriteEffective(p.Out)
		},
	}
	configFlags(cmd, &file)
	cmd.Flags().BoolVar(&effective, "effective", false, "the sum of defaults, file, environment and flags")
	return cmd
}
