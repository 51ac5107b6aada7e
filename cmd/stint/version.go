package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

func versionCommand() command {
	return command{
		name:    "version",
		summary: "print the version",
		text:    "Prints the version, the commit it was built from where that is known, and Go's.",
		run: func(_ context.Context, s streams, args []string) error {
			if len(args) > 0 {
				return &usageError{"version takes no arguments", "write stint version"}
			}
			fmt.Fprintf(s.out, "stint %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}

// version returns the version of the module, and of its source where it has none.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "(devel)"
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				v = "(devel " + setting.Value[:min(12, len(setting.Value))] + ")"
			}
		}
	}
	return v
}
