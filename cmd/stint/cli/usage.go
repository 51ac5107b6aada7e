package cli

import (
	"context"
	"io"

	"github.com/spf13/pflag"

	"stint/cmd/stint/view"
	"stint/server/access"
)

func usageCommand() Command {
	return Command{
		Name: "usage", Args: "[flags] [KEY=VALUE]", Summary: "show who used how much, by periods", Run: runUsage, Flags: flagsOf(new(usageOptions).flags),
		Text: "Shows the use of limits with usage, of one subject or of all, by periods. --plans adds it up by\n" +
			"plan; --export prints the periods that have ended, each row with an ID that never changes; --grants\n" +
			"prints what is left of grants and of rollovers.\n\n" +
			"  stint usage user=42\n  stint usage --rule api/user --from 2026-01-01 --csv\n" + adminTextFor(access.Read),
	}
}

// usageOptions are the flags of stint usage.
type usageOptions struct {
	rule, from                 string
	plans, export, grants, csv bool
}

func (o *usageOptions) flags(c *adminCall, name string) *pflag.FlagSet {
	flags := c.textFlags(name,
		textFlag{&o.rule, "rule", "only of the rule `NAME`"},
		textFlag{&o.from, "from", "only periods that ended after `TIME`, a date such as 2026-01-31 or a time"})
	flags.BoolVar(&o.plans, "plans", false, "add it up by plan")
	flags.BoolVar(&o.export, "export", false, "only periods that have ended")
	flags.BoolVar(&o.grants, "grants", false, "what is left of grants and rollovers")
	flags.BoolVar(&o.csv, "csv", false, "print CSV")
	return flags
}

// path returns the path of the request.
func (o *usageOptions) path(subject string) string {
	path := "/v1/usage"
	switch {
	case o.plans:
		path += "/plans"
	case o.export:
		path += "/export"
	case o.grants:
		path += "/grants"
	}
	format := map[bool]string{true: "csv"}[o.csv]
	return path + "?" + query("subject", subject, "rule", o.rule, "from", o.from, "format", format)
}

func runUsage(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	var o usageOptions
	flags := o.flags(&c, "usage")
	if err := Parse(flags, args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 1:
		return Usage("usage takes one subject", "write for example stint usage user=42")
	case o.plans && o.export:
		return Usage("--plans and --export are both given", "leave one of the two out")
	case o.grants && (o.plans || o.export):
		return Usage("--grants is given together with --plans or --export", "leave one of them out")
	}
	text, err := c.get(ctx, o.path(flags.Arg(0)))
	if err != nil {
		return err
	}
	if o.csv {
		_, err := s.Out.Write(text)
		return err
	}
	var answer view.Usage
	return c.show(s.Out, text, &answer, func(w io.Writer) { answer.Print(w, o.plans) })
}
