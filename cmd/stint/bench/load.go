package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"

	"stint"
	"stint/cmd/stint/cli"
	"stint/internal/system"
	"stint/loadtest"
	"stint/replay"
)

// loadOptions are the flags of bench load.
type loadOptions struct {
	protocol string
	own      bool

	rate              float64
	poisson           bool
	workers, count    int
	duration, timeout time.Duration
	seed              uint64

	keys      int
	spread    string
	zipf, hot float64
	prefix    string
	cost      uint32

	limit, algorithm string
	burst            uint32
	blocks           int
	refill, align    string
	clockError       time.Duration

	domain     string
	descriptor []string
	method     string
	header     []string
	body       string
	denied     int

	tokenFile, caFile string
	json              bool
	html              string

	changed func(flag string) bool
}

func (o *loadOptions) flagSet() *pflag.FlagSet {
	flags := pflag.NewFlagSet("bench load", pflag.ContinueOnError)
	flags.SortFlags = false
	o.changed = flags.Changed
	flags.StringVar(&o.protocol, "protocol", "", "`NAME`: check, rls, stint.check, cl.throttle or http; by default that of TARGET")
	flags.BoolVar(&o.own, "i-own-this-target", false, "allow a TARGET that is not on this machine")
	flags.Float64Var(&o.rate, "rate", 0, "requests a second, a `NUMBER` up to 1000000: an open loop; 0: a closed loop")
	flags.BoolVar(&o.poisson, "poisson", false, "with --rate, start requests at random times and not evenly")
	flags.IntVar(&o.workers, "workers", 64, "`NUMBER` of requests in flight at most, up to 4096")
	flags.DurationVar(&o.duration, "duration", 10*time.Second, "duration, a `TIME` of at most 10m")
	flags.IntVar(&o.count, "count", 0, "most requests, a `NUMBER` up to 50000000; 0 means that")
	flags.DurationVar(&o.timeout, "timeout", 5*time.Second, "longest wait for an answer, a `TIME` of at most 1m")
	flags.Uint64Var(&o.seed, "seed", 1, "`NUMBER` that selects the random keys and times")
	flags.IntVar(&o.keys, "keys", 1000, "`NUMBER` of keys, up to 10000000; 1 where nothing has {key}")
	flags.StringVar(&o.spread, "spread", "zipf", "how requests are spread over keys: `NAME` is uniform, zipf or hot")
	flags.Float64Var(&o.zipf, "zipf", 1.1, "exponent of zipf, a `NUMBER` above 1")
	flags.Float64Var(&o.hot, "hot", 0.9, "share of the hot key, a `NUMBER` from 0 to 1")
	flags.StringVar(&o.prefix, "prefix", "load-", "`TEXT` before the number in the names of keys")
	flags.Uint32Var(&o.cost, "cost", 1, "`UNITS` of each request")
	flags.StringVar(&o.limit, "limit", "", "`LIMIT` of each key, N/UNIT, to check; check without --domain, and cl.throttle, send it")
	flags.StringVar(&o.algorithm, "algorithm", "", "`NAME` of the limit's algorithm; token_bucket where the limit is sent")
	flags.Uint32Var(&o.burst, "burst", 0, "`UNITS` that may pass at once (token_bucket) or wait (leaky_bucket)")
	flags.IntVar(&o.blocks, "blocks", 0, "`NUMBER` of blocks of a sliding_window")
	flags.StringVar(&o.refill, "refill", "", "`step`: a token_bucket that is refilled at multiples of its time")
	flags.StringVar(&o.align, "align", "", "`first`: a fixed_window that begins at the first request")
	flags.DurationVar(&o.clockError, "clock-error", -1, "most `TIME` between the deciding clock and that of this machine, for a sharper check of limits with aligned windows; negative: unknown")
	flags.StringVar(&o.domain, "domain", "", "`DOMAIN` of the rules: rls, stint.check, check")
	flags.StringArrayVar(&o.descriptor, "descriptor", nil, "`KEY=VALUE` of the descriptor; repeat it for further entries")
	flags.StringVar(&o.method, "method", "GET", "`METHOD` of http")
	flags.StringArrayVar(&o.header, "header", nil, "`NAME: VALUE` of a header of http; may be repeated")
	flags.StringVar(&o.body, "body", "", "`TEXT` of the body of http")
	flags.IntVar(&o.denied, "denied-status", 429, "`STATUS` of a denied request of http; others from 400 on are errors")
	flags.StringVar(&o.tokenFile, "token-file", "", "`FILE` with a token for the service")
	flags.StringVar(&o.caFile, "ca-file", "", "`FILE` of certificates that sign the service's; by default those of the system")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	flags.StringVar(&o.html, "html", "", "also write a page with the curve of times to this `FILE`")
	return flags
}

func runLoad(ctx context.Context, s cli.Streams, args []string) error {
	var o loadOptions
	flags := o.flagSet()
	if err := cli.Parse(flags, args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return cli.Usage("bench load needs one TARGET", "write http://127.0.0.1:8080; see stint help bench")
	}
	plan, name, err := o.plan(flags.Arg(0))
	if err != nil {
		return err
	}
	defer plan.Target.Close() //nolint:errcheck // all answers have been read
	var shown *progress
	if !o.json {
		shown = newProgress(s.Err, plan.Duration)
		shown.follow(plan)
	}
	ctx, stop := system.UntilInterrupted(ctx)
	defer stop()
	report, err := plan.Run(ctx)
	shown.finish()
	if err != nil {
		return refusal(err)
	}
	report.Target = name
	return o.print(s, report)
}

// refusal converts the error of a plan.
func refusal(err error) error {
	if _, is := errors.AsType[*stint.SpecError](err); is {
		return err
	}
	return cli.Usage(err.Error(), "see stint help bench")
}

// print prints the report, and returns the error for the exit status.
func (o *loadOptions) print(s cli.Streams, r *loadtest.Report) error {
	write, out := r.WriteText, s.Fitted()
	if o.json {
		write, out = r.WriteJSON, s.Out
	}
	if err := write(out); err != nil {
		return err
	}
	if o.html != "" {
		if err := writePage(s.Err, o.html, r); err != nil {
			return err
		}
	}
	switch {
	case r.Interrupted:
		return cli.ErrInterrupted
	case r.Limit != nil && r.Limit.Exceeded:
		return ErrExceeded
	case r.Errors > 0 && r.Allowed+r.Denied == 0:
		return cli.Refuse("no request was answered", "is the service running there, and does it speak this protocol?")
	}
	return nil
}

// writePage writes the page when it is complete.
func writePage(log io.Writer, name string, r *loadtest.Report) error {
	var page bytes.Buffer
	if err := r.WriteHTML(&page); err != nil {
		return err
	}
	if err := os.WriteFile(name, page.Bytes(), 0o644); err != nil {
		return cli.Refuse("cannot write the page: "+err.Error(), "check the folder of --html and its permissions")
	}
	fmt.Fprintf(log, "page written to %s\n", name)
	return nil
}

// plan returns the run for a target, and the name of the target.
func (o *loadOptions) plan(address string) (*loadtest.Plan, string, error) {
	spread, err := loadtest.ParseSpread(o.spread)
	if err != nil {
		return nil, "", cli.Usage("--spread: "+err.Error(), "write uniform, zipf or hot")
	}
	to, err := o.parseTarget(address)
	if err != nil {
		return nil, "", err
	}
	limit, err := o.parseLimit(to)
	if err != nil {
		return nil, "", err
	}
	target, named, err := o.open(to, limit)
	if err != nil {
		return nil, "", err
	}
	keys := o.keys
	if !named {
		if o.changed("keys") && keys != 1 {
			return nil, "", cli.Usage("--keys: nothing has {key}, so all requests are of one key", "write {key} into --descriptor, --header, --body or the URL")
		}
		keys = 1
	}
	return &loadtest.Plan{
		Target: target, Rate: o.rate, Poisson: o.poisson, Workers: o.workers, Duration: o.duration, Count: o.count, Timeout: o.timeout,
		Keys: loadtest.Keys{Count: keys, Spread: spread, Exponent: o.zipf, Share: o.hot},
		Cost: o.cost, Seed: o.seed, Limit: limit, ClockError: o.clockError,
	}, to.name(), nil
}

// parseLimit returns the limit to check; nil: none.
func (o *loadOptions) parseLimit(to *target) (*stint.Limit, error) {
	sent := to.sendsLimit(o)
	if o.limit == "" {
		if sent {
			return nil, cli.Usage(to.protocol+" needs a limit, which each request contains", "give --limit 100/s, or for check and stint.check a --domain and a --descriptor")
		}
		return nil, nil //nolint:nilnil // no limit is to be checked
	}
	if o.algorithm == "" {
		if !sent {
			return nil, cli.Usage("--limit needs --algorithm here", "name the algorithm of the rule; a rule that names none is a fixed_window")
		}
		o.algorithm = stint.TokenBucket.String()
	}
	algorithm, err := stint.ParseAlgorithm(o.algorithm)
	if err != nil {
		return nil, err
	}
	parsed, err := replay.ParseLimit(o.limit, algorithm, o.burst)
	if err != nil {
		return nil, err
	}
	if len(parsed.By) > 0 {
		return nil, cli.Usage("--limit: the limit is by key", "write N/UNIT alone")
	}
	spec := parsed.Limit.Spec()
	if o.blocks != 0 {
		spec.Blocks = o.blocks
	}
	for _, word := range []struct {
		flag, value, known string
		set                *bool
	}{{"refill", o.refill, "step", &spec.Step}, {"align", o.align, "first", &spec.FromFirst}} {
		if *word.set = word.value == word.known; word.value != "" && !*word.set {
			return nil, cli.Usage(fmt.Sprintf("--%s: unknown word %q", word.flag, word.value), "write "+word.known+", or leave it out")
		}
	}
	return stint.NewLimit(spec)
}

// readFile returns the content of a file of a flag.
func readFile(flag, name string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, cli.Refuse("--"+flag+": "+err.Error(), "name a file that this user can read")
	}
	return data, nil
}
