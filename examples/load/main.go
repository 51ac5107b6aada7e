// Command load raises limits while there is room: it sets a gauge for the load of its machines, and
// checks requests by examples/rules/give.yaml.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"stint"
	"stint/limiter"
	"stint/load"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
)

func main() {
	if err := run(context.Background(), os.Stdout, memory.New(memory.Options{}), "rules/give.yaml"); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// run sends 150 batch jobs at several loads. The limit is 10 a minute, and up to 100 while the load
// is below 70 %.
func run(ctx context.Context, out io.Writer, store stint.Store, rules string) error {
	table, err := rulefile.Load(rules)
	if err != nil {
		return err
	}
	var gauges load.Gauges
	l := limiter.New(store, table, limiter.Options{Load: gauges.Load})
	for _, stage := range []struct {
		what string
		set  func() error
	}{
		{"nobody has said how busy it is", func() error { return nil }},
		// A program sets the gauge every few seconds; a value is valid for the given time. A
		// service gets it by PUT /v1/load/give on its admin address.
		{"at 20 %", func() error { return gauges.Set("give", 0.20, time.Minute) }},
		{"at 90 %", func() error { return gauges.Set("give", 0.90, time.Minute) }},
		// A gauge can also be a function, which each request calls.
		{"at 69 %, asked each time", func() error {
			gauges.Func("give", func() (float64, bool) { return 0.69, true })
			return nil
		}},
	} {
		if err := stage.set(); err != nil {
			return err
		}
		passed, over, err := jobs(ctx, l, stage.what)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %d of 150 jobs pass, %d of them above the limit\n", stage.what, passed, over)
	}
	return nil
}

// jobs sends 150 jobs of one customer.
func jobs(ctx context.Context, l *limiter.Limiter, customer string) (passed, over int, err error) {
	request := limiter.Request{Domain: "give", Descriptors: []limiter.Descriptor{
		{Entries: []rule.Entry{{Key: "batch", Value: customer}}, Cost: 1},
	}}
	var v limiter.Verdict
	for range 150 {
		if err := l.Decide(ctx, &request, &v); err != nil {
			return passed, over, err
		}
		if v.Allowed {
			passed++
		}
		if v.Over {
			over++
		}
	}
	return passed, over, nil
}
