package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version and commit are set by the linker in release builds.
var version, commit string

// Version is the version of this binary, "devel" where it was built without
// one.
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

type versionInfo struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	A2A     string `json:"a2a"` // protocol versions spoken
}

func versionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "version", Short: "Print version, commit and the protocol spoken", Args: cobra.NoArgs,
		Example: "  parley version\n  parley version --output json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			info := versionInfo{Version(), commit, runtime.Version(), "1.0"}
			if output == "json" {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(info)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "parley %s %s (%s), A2A %s\n", info.Version, info.Commit, info.Go, info.A2A)
			return err
		},
	}
	cmd.Flags().StringVar(&output, "output", "table", "table or json")
	return cmd
}
