package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/pflag"

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
	case flags.NArg() == 0 && !o.all:
		text, err = c.get(ctx, path)
	default:
		body, _ := json.Marshal(struct { // a text and a flag
			Rule string `json:"rule,omitempty"`
			All  bool   `json:"all,omitempty"`
		}{flags.Arg(0), o.all})
		text, err = c.change(ctx, http.MethodPost, path, body, c.why)
	}
	if err != nil {
		return err
	}
	var answer struct{ Losses, Accepted []loss }
	return c.show(s.Out, text, &answer, func(w io.Writer) {
		switch {
		case len(answer.Losses) > 0:
			fmt.Fprintln(w, "RULE\tLOST AT\tSINCE\tUNTIL")
		case len(answer.Accepted) == 0:
			fmt.Fprintln(w, "no durable rule has a loss")
		}
		for _, l := range answer.Losses {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", l.Rule, l.Place, l.Since.Format(time.RFC3339), l.Until.Format(time.RFC3339))
		}
		for _, l := range answer.Accepted {
			fmt.Fprintln(w, "accepted: "+l.Rule)
		}
	})
}

// loss is the loss of a rule in the answer of the service.
type loss struct {
	Rule, Place  string
	Since, Until time.Time
}
