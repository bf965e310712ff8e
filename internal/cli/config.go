package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/parley"
)

// loadConfig reads the configuration that a command line, the environment and
// a file make together.
func loadConfig(cmd *cobra.Command, s Streams, file string) (*config.Config, error) {
	if file == "" {
		file = lookup(s.Env, "PARLEY_CONFIG")
	}
	cfg, err := config.Load(config.Options{File: file, Env: s.Env, Flags: cmd.Flags()})
	if err != nil {
		return nil, parley.E("config.load", parley.Invalid, "", err.Error(), nil)
	}
	return cfg, nil
}

// lookup is the value of a variable; empty counts as unset.
func lookup(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(env[i], name+"="); ok {
			return value
		}
	}
	return ""
}

func configCommand(s Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Look at the configuration", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(configPrintCommand(s))
	return cmd
}

func configPrintCommand(s Streams) *cobra.Command {
	var file string
	var effective bool
	cmd := &cobra.Command{
		Use:   "print --effective",
		Short: "Print the configuration that serve would run with, and where each value comes from",
		Long:  "Print the configuration as YAML. Secrets are printed as [redacted].",
		Example: `  parley config print --effective
  parley config print --effective --config parley.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !effective {
				return usageError{parley.E("config.print", parley.Invalid, "", "say --effective: only the configuration as a whole can be printed", nil)}
			}
			cfg, err := loadConfig(cmd, s, file)
			if err != nil {
				return err
			}
			return cfg.WriteEffective(s.Out)
		},
	}
	config.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&file, "config", "", "YAML file with the configuration (or PARLEY_CONFIG)")
	cmd.Flags().BoolVar(&effective, "effective", false, "the sum of defaults, file, environment and flags")
	return cmd
}
