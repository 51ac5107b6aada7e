package cli

import (
	"context"
	"net/http"

	"github.com/spf13/pflag"

	"stint/cmd/stint/view"
	"stint/server/access"
)

func lossCommand() Command {
	return Command{
		Name: "accept-loss", Args: "[flags] [RULE]", Summary: "let durable rules go on after counts were lost", Run: runAcceptLoss, Flags: flagsOf(new(lossOptions).flags),
		Text: "After counts of a durable rule were lost, its takes follow on_store_failure until the period ends.\n" +
			"This lets the rule, or with --all each of them, go on at once with the counts that are left.\n" +
			"Without a rule it lists the rules with a loss.\n\n" +
			"  stint accept-loss\n  stint accept-loss api/user --why 'restored from the bill'\n" +
			adminTextOf(access.Write.String()+"; to list, "+access.Read.String()+" or higher"),
	}
}

// lossOptions are the flags of stint accept-loss.
type lossOptions struct{ all bool }

func (o *lossOptions) flags(c *adminCall, name string) *pflag.FlagSet {
	flags := c.textFlags(name, textFlag{&c.why, "why", "`REASON` for the audit trail, if the service has records"})
	flags.BoolVar(&o.all, "all", false, "all rules")
	return flags
}

func runAcceptLoss(ctx context.Context, s Streams, args []string) error {
	const path = "/v1/accept-loss"
	var c adminCall
	var o lossOptions
	flags := o.flags(&c, "accept-loss")
	if err := Parse(flags, args); err != nil {
		return err
	}
	var text []byte
	var err error
	switch {
	case flags.NArg() > 1 || o.all && flags.NArg() > 0:
		return Usage("accept-loss takes one rule, or --all", "write for example stint accept-loss api/user")
	case o.all:
		text, err = c.change(ctx, http.MethodPost, path, map[string]any{"all": true}, c.why)
	case flags.NArg() > 0:
		text, err = c.change(ctx, http.MethodPost, path, map[string]any{"rule": flags.Arg(0)}, c.why)
	default:
		text, err = c.get(ctx, path)
	}
	if err != nil {
		return err
	}
	var answer view.Losses
	return c.show(s.Out, text, &answer, answer.Print)
}
