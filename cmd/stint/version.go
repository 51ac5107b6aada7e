package main

import (
	"context"
	"fmt"
	"runtime"

	"stint/app"
	"stint/cmd/stint/cli"
)

func versionCommand() cli.Command {
	return cli.Command{
		Name:    "version",
		Summary: "print the version",
		Text:    "Prints the version, the commit it was built from where that is known, and Go's.",
		Run: func(_ context.Context, s cli.Streams, args []string) error {
			if len(args) > 0 {
				return cli.Usage("version takes no arguments", "write stint version")
			}
			_, err := fmt.Fprintf(s.Out, "stint %s %s %s/%s\n", app.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
