package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/a2a"
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
	A2A     string `json:"a2a"` // protocol version spoken
}

func versionCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print version, commit and the protocol spoken", Args: arguments(),
		Example: "  parley version\n  parley version --output json",
		RunE: func(*cobra.Command, []string) error {
			info := thisVersion()
			if p.json() {
				return p.document(info)
			}
			return p.print("%s\n", info)
		},
	}
}

func thisVersion() versionInfo {
	return versionInfo{Version(), commit, runtime.Version(), string(a2a.V10)}
}

// String is the version in one line.
func (v versionInfo) String() string {
	line := "parley " + v.Version
	if v.Commit != "" {
		line += " " + v.Commit
	}
	return fmt.Sprintf("%s (%s), A2A %s", line, v.Go, v.A2A)
}
