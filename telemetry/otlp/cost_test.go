package otlp_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/internal/testkit/programs"
	"stint/limiter"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
	"stint/telemetry/otlp"
)

// BenchmarkTraces compares decisions of a limiter with what an exporter gives it with those of one
// without: of no exporter, without a trace of the caller, with one that is not sampled, and traced. The
// two take turns; ratio is the median over all pairs.
func BenchmarkTraces(b *testing.B) {
	for _, test := range []struct{ name, parent string }{{"off", ""}, {"none", ""}, {"unsampled", unsampled}, {"sampled", sampled}} {
		b.Run(test.name, func(b *testing.B) {
			c := programs.StartCollector(b)
			e, err := otlp.New(otlp.Options{Endpoint: c.HTTP, Traces: true, Tracer: otlp.TracerOptions{Most: 1 << 31}})
			testkit.Must(b, err)
			if test.name == "off" {
				e = nil
			}
			e.Start(nil)
			defer e.Stop(context.Background())
			table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte(rules)})
			testkit.Must(b, err)
			store := memory.New(memory.Options{})
			traced := limiter.New(e.Store(store, "memory", "here"), table, limiter.Options{Tracer: e.Tracer()})
			plain := limiter.New(store, table, limiter.Options{})
			ctx := otlp.Incoming(b.Context(), test.parent, "")
			req := limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{{Entries: []rule.Entry{{Key: "user", Value: "x"}}, Cost: 1}}}
			v := new(limiter.Verdict)
			round := func(l *limiter.Limiter) time.Duration {
				began := time.Now()
				for range 200 {
					testkit.Must(b, l.Decide(ctx, &req, v))
				}
				return time.Since(began)
			}
			var ratios []float64
			for b.Loop() {
				var with, without time.Duration
				if len(ratios)%2 == 0 {
					with, without = round(traced), round(plain)
				} else {
					without, with = round(plain), round(traced)
				}
				ratios = append(ratios, float64(with)/float64(without))
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "ratio")
		})
	}
}
