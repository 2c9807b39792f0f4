package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// released is the version that a release was built as; the linker sets it.
var released string

// version is the release, the module's version, or the commit it was built from.
func version() string {
	if released != "" {
		return released
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "devel-" + s.Value[:min(12, len(s.Value))]
		}
	}
	return "devel"
}

// buildInfo is the version with what it was built by and for, as version and --version print it.
func buildInfo() string {
	return fmt.Sprintf("lockpick %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func versionCmd(out io.Writer) *cobra.Command {
	return &cobra.Command{Use: "version", Short: "print version and build information", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(out, buildInfo())
			return err
		}}
}
