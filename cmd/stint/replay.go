package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"stint"
	"stint/cmd/stint/cli"
	"stint/cmd/stint/view"
	"stint/internal/system"
	"stint/replay"
	"stint/replay/accesslog"
	"stint/rule/rulefile"
)

const replayText = `Shows what a limit, or a file of rules, would have done to the requests of an access
log. Several logs are read one after the other, - is standard input, and files packed with
gzip are unpacked. A limit is N/UNIT, where UNIT is s, min, h, d or a duration (100/15m),
followed by the key to count by: ip, path, method, user, agent, or several of them joined
by "+".

It reads the logs of Apache and nginx (common and combined), Envoy, HAProxy, AWS's
Application Load Balancer and Cloudflare, and JSON with the usual names, and prints which
format it found. The exit status is 1 if it can parse less than half of the lines or none,
and 99 if the condition of --fail-if is met: denied, late or unparseable, then > >= < or <=,
then a number of lines or a share (1%). Ctrl-C prints the report of the lines until there, and
ends with status 130.

  stint replay --limit "100/min by ip" access.log
  stint replay --limit "100/min by ip" --fail-if "denied > 1%" access.log
  stint replay --limit "100/min by ip" --sweep access.log
  stint replay --rules rules.yaml --advise access.log
  stint replay --rules rules.yaml --format html --out report.html access.log.gz`

func replayCommand() cli.Command {
	return cli.Command{
		Name:    "replay",
		Args:    "[flags] LOG...",
		Summary: "show what a limit would have done to an access log",
		Text:    replayText,
		Run:     runReplay,
		Flags:   func() []cli.FlagGroup { return cli.OneGroup(new(replayOptions).flagSet()) },
	}
}

// replayOptions are the flags of replay.
type replayOptions struct {
	rules     []string
	limit     string
	algorithm string
	burst     uint32
	reorder   time.Duration
	format    string
	out       string
	failIf    []string
	sweep     bool
	advise    bool

	thresholds []*replay.Threshold // failIf, read
}

func (o *replayOptions) flagSet() *pflag.FlagSet {
	flags := pflag.NewFlagSet("replay", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.StringArrayVar(&o.rules, "rules", nil, "`FILE|DIR` of rules with an http section; may be repeated")
	flags.StringVar(&o.limit, "limit", "", "one `LIMIT` instead of rules, for example \"100/min by ip\"")
	flags.StringVar(&o.algorithm, "algorithm", stint.FixedWindow.String(), "`NAME` of the limit's algorithm")
	flags.Uint32Var(&o.burst, "burst", 0, "`UNITS` of the limit that may pass at once (token_bucket) or wait (leaky_bucket)")
	flags.BoolVar(&o.sweep, "sweep", false, "show how many keys each limit would deny with other numbers of requests")
	flags.BoolVar(&o.advise, "advise", false, "show what is wrong with the limits, and the lines that would mend it")
	flags.DurationVar(&o.reorder, "reorder", replay.DefaultReorder, "longest `TIME` by which lines may be out of order")
	flags.StringVar(&o.format, "format", "text", "`FORMAT` of the report: text, json or html")
	flags.StringVar(&o.out, "out", "", "write the report to this `FILE`, not to standard output")
	flags.StringArrayVar(&o.failIf, "fail-if", nil, "end with status 99 if `CONDITION` is met, for example \"denied > 1%\"; may be repeated")
	return flags
}

// writers has a function for each format of a report.
var writers = map[string]func(*replay.Report, io.Writer) error{
	"text": func(r *replay.Report, w io.Writer) error { return r.WriteTextWidth(w, view.Width(w)) },
	"json": (*replay.Report).WriteJSON,
	"html": (*replay.Report).WriteHTML,
}

// readingRules is the progress of a command that reads rules.
const readingRules = "reading rules"

func runReplay(ctx context.Context, s cli.Streams, args []string) error {
	var o replayOptions
	flags := o.flagSet()
	if err := cli.Parse(flags, args); err != nil {
		return err
	}
	ctx, stop := system.UntilInterrupted(ctx)
	defer stop()
	write, err := o.check(flags)
	if err != nil {
		return err
	}
	done := view.Working(s.Err, func() string { return readingRules })
	options, err := o.options()
	done()
	if err != nil {
		return err
	}
	inputs, err := openInputs(s, flags.Args())
	if err != nil {
		return err
	}
	bar := newBar(s.Err)
	options.Progress = bar.show
	report, interrupted := replay.Run(ctx, options, inputs)
	bar.finish()
	if report == nil {
		return interrupted
	}
	if err := writeReport(s, "report", o.out, func(w io.Writer) error { return write(report, w) }); err != nil {
		return err
	}
	if interrupted != nil {
		return cli.ErrInterrupted
	}
	return o.judge(s, report)
}

// judge compares the report with the thresholds. A report of too few parsed lines is an error,
// whatever the thresholds.
func (o *replayOptions) judge(s cli.Streams, report *replay.Report) error {
	err := judge(s, o.thresholds, report)
	if unreadable := report.Readable(); unreadable != nil {
		return unreadable
	}
	return err
}

// judge prints the thresholds that are met, and returns errThreshold if there are any.
func judge(s cli.Streams, thresholds []*replay.Threshold, of replay.Measured) error {
	var err error
	for _, t := range thresholds {
		if met, has := t.Met(of); met {
			fmt.Fprintf(s.Err, "threshold met: %s: %s\n", t, has)
			err = errThreshold
		}
	}
	return err
}

// check returns an error for wrong flags, or the writer of the report's format.
func (o *replayOptions) check(flags *pflag.FlagSet) (func(*replay.Report, io.Writer) error, error) {
	const see = "see stint help replay"
	write := writers[o.format]
	switch {
	case write == nil:
		return nil, cli.Usage(fmt.Sprintf("--format: unknown format %q", o.format), "use text, json or html")
	case o.limit == "" && len(o.rules) == 0:
		return nil, cli.Usage("replay needs a limit or rules", `give --limit "100/min by ip" or --rules FILE`)
	case o.limit != "" && len(o.rules) > 0:
		return nil, cli.Usage("--limit and --rules are both given", "give one of the two")
	case len(o.rules) > 0 && (flags.Changed("algorithm") || flags.Changed("burst")):
		return nil, cli.Usage("--algorithm and --burst belong to --limit", "write them into the rules")
	case o.reorder < 0:
		return nil, cli.Usage(fmt.Sprintf("--reorder: %v is negative", o.reorder), "write 0 or a positive time, for example 2m")
	case flags.NArg() == 0:
		return nil, cli.Usage("replay needs a log", "name the files of a log, or - for standard input; "+see)
	}
	var err error
	o.thresholds, err = parseThresholds(o.failIf, new(replay.Report))
	return write, err
}

// parseThresholds parses the conditions of --fail-if.
func parseThresholds(texts []string, about replay.Measured) ([]*replay.Threshold, error) {
	var thresholds []*replay.Threshold
	for _, text := range texts {
		t, err := replay.ParseThreshold(text, about)
		if wrong, ok := errors.AsType[*replay.ThresholdError](err); ok {
			return nil, cli.Usage("--fail-if: "+wrong.Problem, wrong.Hint)
		}
		thresholds = append(thresholds, t)
	}
	return thresholds, nil
}

// options returns the limit or the rules to replay.
func (o *replayOptions) options() (replay.Options, error) {
	options := replay.Options{Reorder: o.reorder, Sweep: o.sweep, Advise: o.advise}
	if len(o.rules) > 0 {
		table, err := rulefile.Load(o.rules...)
		options.Rules = table
		return options, err
	}
	algorithm, err := stint.ParseAlgorithm(o.algorithm)
	if err != nil {
		return options, err
	}
	if options.Limit, err = replay.ParseLimit(o.limit, algorithm, o.burst); err != nil || !o.advise {
		return options, err
	}
	text := options.Limit.RuleText()
	if text == "" {
		return options, cli.Usage("--advise: rules cannot count by the user of a log", "count by another field, or leave out --advise")
	}
	options.AdviseBy, err = rulefile.Parse(rulefile.Source{Data: []byte(text)})
	return options, err
}

// openInputs returns the logs; "-" is standard input.
func openInputs(s cli.Streams, names []string) ([]accesslog.Input, error) {
	var inputs []accesslog.Input
	var errs []error
	stdin := false
	for _, name := range names {
		if name == "-" {
			if stdin {
				return nil, cli.Usage("standard input is given twice", "give - once")
			}
			stdin = true
			open := func() (io.ReadCloser, error) { return io.NopCloser(s.In), nil }
			inputs = append(inputs, accesslog.Input{Name: "standard input", Open: open})
			continue
		}
		in, err := accesslog.File(name)
		errs = append(errs, err)
		inputs = append(inputs, in)
	}
	return inputs, errors.Join(errs...)
}

// writeReport writes a report, or what it is called, to standard output or to a file. It writes the file only when the whole
// report is ready.
func writeReport(s cli.Streams, what, out string, write func(io.Writer) error) error {
	if out == "" {
		return write(s.Out)
	}
	var page bytes.Buffer
	if err := write(&page); err != nil {
		return err
	}
	if err := os.WriteFile(out, page.Bytes(), 0o644); err != nil {
		return cli.Refuse("cannot write the "+what+": "+err.Error(), "check the folder of --out and its permissions")
	}
	fmt.Fprintf(s.Err, "%s written to %s\n", what, out)
	return nil
}

// bar is a progress bar on a terminal; elsewhere it does nothing.
type bar struct {
	out   io.Writer // nil: no terminal
	shown *progressbar.ProgressBar
}

func newBar(w io.Writer) *bar {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return &bar{}
	}
	return &bar{out: w}
}

// show draws how much of total was read; total 0 means unknown.
func (b *bar) show(read, total int64) {
	if b.out == nil {
		return
	}
	if b.shown == nil {
		if total == 0 {
			total = -1 // an unknown length
		}
		doing := "replaying"
		if view.Width(b.out) < 60 { // times of minutes need the columns; a longer line would scroll the terminal
			doing = ""
		}
		b.shown = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(b.out), progressbar.OptionSetDescription(doing),
			progressbar.OptionShowBytes(true), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish())
	}
	// An error of the terminal does not matter.
	_ = b.shown.Set64(read)
}

// finish removes the bar.
func (b *bar) finish() {
	if b.shown != nil {
		_ = b.shown.Finish() // see show
	}
}
