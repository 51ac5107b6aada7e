package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"stint/cmd/stint/cli"
	"stint/server/access"
)

func tokenCommand() cli.Command {
	return cli.Command{
		Name: "token", Args: "[flags] NAME", Summary: "make a token for the admin API", Run: runToken,
		Flags: func() []cli.FlagGroup { return cli.OneGroup(tokenFlags(new(string))) },
		Text: `Prints a new token for NAME, and the line to add to the file of serve --admin-access. That file has
only the hash, so nobody can read the token there: it is shown once. It calls no service.

The roles are read (limits, inspect, health, metrics, rules), support (reset too) and write (all).

  stint token --role support oncall`,
	}
}

func tokenFlags(role *string) *pflag.FlagSet {
	flags := pflag.NewFlagSet("token", pflag.ContinueOnError)
	flags.StringVar(role, "role", access.Read.String(), "`ROLE` of the caller: read, support or write")
	return flags
}

func runToken(_ context.Context, s cli.Streams, args []string) error {
	var word string
	flags := tokenFlags(&word)
	if err := cli.Parse(flags, args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return cli.Usage("token takes one name", "write stint token --role read NAME")
	}
	role, err := access.ParseRole(word)
	if err != nil {
		return cli.Usage(err.Error(), "see stint help token")
	}
	name := flags.Arg(0)
	if err := access.CheckName(name); err != nil {
		return cli.Usage(err.Error(), "see stint help token")
	}
	token, credential := access.NewToken()
	_, err = fmt.Fprintf(s.Out, "token  %s\nline   %s %v %s\n", token, name, role, credential)
	return err
}
