package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"time"

	"github.com/spf13/pflag"

	"stint"
	"stint/cmd/stint/cli"
	"stint/internal/system"
	"stint/internal/text"
	"stint/internal/web"
	"stint/loadtest"
	"stint/replay"
	"stint/store/memory"
)

// decideOptions are the flags of bench decide.
type decideOptions struct {
	url       string
	duration  time.Duration
	count     uint64
	workers   int
	keys      int
	limit     string
	algorithm string
	burst     uint32
}

// Bounds of bench decide.
const (
	maxBenchTime    = 10 * time.Minute
	maxBenchWorkers = 1024
	maxBenchKeys    = 10_000_000

	decideTimeout = 5 * time.Second // of a request to a service
)

func (o *decideOptions) flagSet() *pflag.FlagSet {
	flags := pflag.NewFlagSet("bench decide", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.StringVar(&o.url, "url", "", "`URL` of a service on this machine, for example http://127.0.0.1:8080")
	flags.DurationVar(&o.duration, "duration", 3*time.Second, "duration, a `TIME` of at most 10m")
	flags.Uint64Var(&o.count, "count", 0, "most decisions, a `NUMBER`; 0: no limit")
	flags.IntVar(&o.workers, "workers", 0, "`NUMBER` of workers that run at the same time; one for each processor by default")
	flags.IntVar(&o.keys, "keys", 100_000, "`NUMBER` of keys")
	flags.StringVar(&o.limit, "limit", "100/s", "`LIMIT` of each key: N/UNIT")
	flags.StringVar(&o.algorithm, "algorithm", stint.TokenBucket.String(), "`NAME` of the limit's algorithm")
	flags.Uint32Var(&o.burst, "burst", 0, "`UNITS` that may pass at once (token_bucket) or wait (leaky_bucket)")
	return flags
}

// check returns an error for values that bench decide does not support.
func (o *decideOptions) check(flags *pflag.FlagSet) error {
	between := func(flag string, n, most int) error {
		if n < 1 || n > most {
			return cli.Usage(fmt.Sprintf("--%s: %d is not between 1 and %d", flag, n, most), "see stint help bench")
		}
		return nil
	}
	if flags.NArg() > 0 {
		return cli.Usage("bench decide takes flags only, not "+flags.Arg(0), "see stint help bench")
	}
	if o.duration <= 0 || o.duration > maxBenchTime {
		return cli.Usage(fmt.Sprintf("--duration: %v is not between 0 and %v", o.duration, maxBenchTime), "write a time such as 5s")
	}
	if o.workers == 0 && !flags.Changed("workers") { // no default of this machine: it would stand in manual pages
		o.workers = runtime.GOMAXPROCS(0)
	}
	return errors.Join(between("workers", o.workers, maxBenchWorkers), between("keys", o.keys, maxBenchKeys))
}

func runDecide(ctx context.Context, s cli.Streams, args []string) error {
	var o decideOptions
	flags := o.flagSet()
	if err := cli.Parse(flags, args); err != nil {
		return err
	}
	if err := o.check(flags); err != nil {
		return err
	}
	algorithm, err := stint.ParseAlgorithm(o.algorithm)
	if err != nil {
		return err
	}
	limit, err := replay.ParseLimit(o.limit, algorithm, o.burst)
	if err != nil {
		return err
	}
	ctx, stop := system.UntilInterrupted(ctx)
	defer stop()
	if o.url != "" {
		err = o.service(ctx, s, limit.Limit)
	} else {
		o.memory(ctx, s, limit.Limit)
	}
	if ctx.Err() != nil {
		return cli.ErrInterrupted
	}
	return err
}

// measure measures a target, and times one of every so many decisions. It draws its progress.
func (o *decideOptions) measure(ctx context.Context, s cli.Streams, every uint64, ask measureTarget) *measureResult {
	defer newProgress(s.Err, o.duration).tick()()
	return measureRun(ctx, measurePlan{Workers: o.workers, Keys: o.keys, For: o.duration, Count: o.count, Every: every}, ask)
}

// memory measures a store in this process.
func (o *decideOptions) memory(ctx context.Context, s cli.Streams, limit *stint.Limit) {
	store := memory.New(memory.Options{})
	keys := make([]stint.Key, o.keys)
	for i := range keys {
		keys[i] = stint.Key(fmt.Sprintf("bench/user=%d", i))
	}
	// Reading the clock costs as much as such a decision, so only one in 64 is timed.
	total := o.measure(ctx, s, 64, func(_ context.Context, key int) (bool, error) {
		return store.Take(keys[key], limit, 1).Allowed, nil
	})
	out := s.Fitted()
	fmt.Fprintf(out, "store in memory, %s, %s, %s\n", o.what(limit), text.Count(o.workers, "worker"), text.Count(o.keys, "key"))
	total.Print(out)
	stats := store.Stats()
	fmt.Fprintf(out, "memory     %d bytes for %d keys\n", stats.Bytes, stats.Keys)
}

// service measures a running service.
func (o *decideOptions) service(ctx context.Context, s cli.Streams, limit *stint.Limit) error {
	to, err := decideURL(o.url)
	if err != nil {
		return err
	}
	target := loadtest.NewLimitCheck(to, limit, loadtest.Options{Prefix: "bench/user="})
	defer target.Close() //nolint:errcheck // all answers have been read
	caller := target.Caller()
	total := o.measure(ctx, s, 1, func(ctx context.Context, key int) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, decideTimeout)
		defer cancel()
		answer, err := caller.Ask(ctx, key, 1)
		return answer.Allowed, err
	})
	out := s.Fitted()
	fmt.Fprintf(out, "%s/v1/check, %s, %s, %s\n", to, o.what(limit), text.Count(o.workers, "worker"), text.Count(o.keys, "key"))
	total.Print(out)
	if n, err := total.Failed(); err != nil {
		return cli.Refuse(fmt.Sprintf("%d requests failed, for example: %v", n, err), "is stint serve running there?")
	}
	return nil
}

func (o *decideOptions) what(limit *stint.Limit) string {
	spec := limit.Spec()
	return fmt.Sprintf("%s %d per %v", spec.Algorithm, spec.Requests, spec.Per)
}

// decideURL returns the service to call, and an error unless it is on this machine.
func decideURL(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return "", cli.Usage(fmt.Sprintf("--url: %q is not an address of a service", text), "write http://127.0.0.1:8080")
	}
	if !web.Loopback(u.Hostname()) {
		return "", cli.Usage(
			fmt.Sprintf("--url: %s is not this machine", u.Hostname()),
			"bench decide sends as fast as it can, so only to 127.0.0.1, ::1 or localhost")
	}
	return "http://" + u.Host, nil
}
