package main

import (
	"context"
	"fmt"
	"runtime"

	"stint/app"
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
			fmt.Fprintf(s.out, "stint %s %s %s/%s\n", app.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}
