package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"stint/cmd/stint/cli"
	"stint/cmd/stint/view"
	"stint/internal/system"
	"stint/replay"
	"stint/replay/whatif"
	"stint/rule"
	"stint/rule/rulefile"
)

const planText = `Shows what a change of rules would do to the requests of an access log: for each rule
whose meaning or denials change, how many real keys the new rules deny and the old ones do
not, and how many they free. OLD and NEW are rule files or folders with an http section; the
log is one that stint replay reads. It is read twice, so it must be a file.

The exit status is 1 if less than half of the lines can be parsed, and 99 if the condition
of --fail-if is met: newly-denied or freed clients, or denied, late or unparseable lines, then
> >= < or <=, then a number or a share (1%).

  stint plan rules.yaml new.yaml --log access.log
  stint plan deployed/ rules/ --log access.log --fail-if "newly-denied > 0"`

func planCommand() cli.Command {
	return cli.Command{
		Name:    "plan",
		Args:    "[flags] OLD NEW",
		Summary: "show whom a change of rules would newly deny or free",
		Text:    planText,
		Run:     runPlan,
		Flags:   func() []cli.FlagGroup { return cli.OneGroup(new(planOptions).flagSet()) },
	}
}

// planOptions are the flags of plan.
type planOptions struct {
	logs    []string
	reorder time.Duration
	format  string
	out     string
	failIf  []string
}

func (o *planOptions) flagSet() *pflag.FlagSet {
	flags := pflag.NewFlagSet("plan", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.StringArrayVar(&o.logs, "log", nil, "`FILE` of an access log; may be repeated")
	flags.DurationVar(&o.reorder, "reorder", replay.DefaultReorder, "longest `TIME` by which lines may be out of order")
	flags.StringVar(&o.format, "format", "text", "`FORMAT` of the plan: text or json")
	flags.StringVar(&o.out, "out", "", "write the plan to this `FILE`, not to standard output")
	flags.StringArrayVar(&o.failIf, "fail-if", nil, "end with status 99 if `CONDITION` is met, for example \"newly-denied > 0\"; may be repeated")
	return flags
}

// planWriters has a function for each format of a plan.
var planWriters = map[string]func(*whatif.Plan, io.Writer) error{
	"text": func(p *whatif.Plan, w io.Writer) error { return p.WriteText(w, view.Width(w)) },
	"json": (*whatif.Plan).WriteJSON,
}

func runPlan(ctx context.Context, s cli.Streams, args []string) error {
	var o planOptions
	flags := o.flagSet()
	if err := cli.Parse(flags, args); err != nil {
		return err
	}
	if err := o.check(flags); err != nil {
		return err
	}
	ctx, stop := system.UntilInterrupted(ctx)
	defer stop()
	thresholds, err := parseThresholds(o.failIf, new(whatif.Plan))
	if err != nil {
		return err
	}
	before, after, err := loadBoth(s, flags)
	if err != nil {
		return err
	}
	inputs, err := openInputs(s, o.logs)
	if err != nil {
		return err
	}
	bar := newBar(s.Err)
	plan, interrupted := replay.Plan(ctx, before, after, replay.Options{Reorder: o.reorder, Progress: bar.show}, inputs)
	bar.finish()
	if plan == nil {
		return interrupted
	}
	if err := writeReport(s, "plan", o.out, func(w io.Writer) error { return planWriters[o.format](plan, w) }); err != nil {
		return err
	}
	if interrupted != nil {
		return cli.ErrInterrupted
	}
	return judge(s, thresholds, plan)
}

// check returns an error for wrong flags.
func (o *planOptions) check(flags *pflag.FlagSet) error {
	switch {
	case planWriters[o.format] == nil:
		return cli.Usage(fmt.Sprintf("--format: unknown format %q", o.format), "use text or json")
	case flags.NArg() != 2:
		return cli.Usage("plan needs the old rules and the new ones", "write stint plan OLD NEW --log FILE; see stint help plan")
	case len(o.logs) == 0:
		return cli.Usage("plan needs a log", "name the file of a log with --log; see stint help plan")
	case slices.Contains(o.logs, "-"):
		return cli.Usage("--log: standard input cannot be read twice", "write the log to a file")
	case slices.ContainsFunc(o.logs, isPipe):
		return cli.Usage("--log: a pipe cannot be read twice", "write the log to a file; a file that gzip packed can be read as it is")
	case o.reorder < 0:
		return cli.Usage(fmt.Sprintf("--reorder: %v is negative", o.reorder), "write 0 or a positive time, for example 2m")
	}
	return nil
}

// loadBoth loads the old rules and the new ones.
func loadBoth(s cli.Streams, flags *pflag.FlagSet) (before, after *rule.Table, err error) {
	defer view.Working(s.Err, func() string { return readingRules })()
	if before, err = rulefile.Load(flags.Arg(0)); err != nil {
		return nil, nil, err
	}
	after, err = rulefile.Load(flags.Arg(1))
	return before, after, err
}

// isPipe reports whether a file is a pipe, such as that of a shell's <(command), whose bytes are gone once they are read.
func isPipe(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0
}
