package replay

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	"stint"
	"stint/replay/accesslog"
	"stint/rule/rulefile"
)

// unpackedLog returns the real log repeated `times` times, each copy one year later.
func unpackedLog(tb testing.TB, times int) []byte {
	tb.Helper()
	f, err := os.Open("testdata/apache_access.log.gz")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	log, err := io.ReadAll(z)
	if err != nil {
		tb.Fatal(err)
	}
	var all []byte
	for i := range times {
		all = append(all, bytes.ReplaceAll(log, []byte("/May/2015:"), fmt.Appendf(nil, "/May/%d:", 2015+i))...)
	}
	return all
}

const benchRules = `
domain: web
descriptors:
  - key: remote_address
    rate_limit: {unit: minute, requests_per_unit: 100}
    descriptors:
      - key: path
        rate_limit: {per: 15m, requests: 5}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
    - actions: [{remote_address: {}}, {path: {}}]
`

// BenchmarkRun replays 400,000 lines in combined format. The goal is 1 million lines per second and
// core for one algorithm, and 0.4 million for all five.
func BenchmarkRun(b *testing.B) {
	const times = 40
	log := unpackedLog(b, times)
	limit, err := ParseLimit("100/min by ip", stint.FixedWindow, 0)
	if err != nil {
		b.Fatal(err)
	}
	table, err := rulefile.Parse(rulefile.Source{Name: "bench.yaml", Data: []byte(benchRules)})
	if err != nil {
		b.Fatal(err)
	}
	for _, bench := range []struct {
		name string
		opts Options
	}{
		{"one", Options{Limit: limit, Algorithms: []stint.Algorithm{}}},
		{"five", Options{Limit: limit}},
		{"rules", Options{Rules: table, Algorithms: []stint.Algorithm{}}},
		{"rules five", Options{Rules: table}},
	} {
		bench.opts.Reorder = DefaultReorder
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				report, err := Run(context.Background(), bench.opts, []accesslog.Input{accesslog.Reader("log", bytes.NewReader(log))})
				if err != nil {
					b.Fatal(err)
				}
				if report.Parsed != times*10_000 || report.Late != 0 {
					b.Fatalf("%d parsed, %d late", report.Parsed, report.Late)
				}
			}
			b.ReportMetric(float64(b.N)*times*10_000/b.Elapsed().Seconds()/1e6, "Mlines/s")
		})
	}
}
