package sim_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"stint/fleet/sim"
)

// TestTable prints the table of docs/coordination.md: what each mode promises, and what it
// does on 20 nodes under three loads, in one run.
func TestTable(t *testing.T) {
	length := 10 * time.Second
	if testing.Short() {
		length = 3 * time.Second
	}
	var table strings.Builder
	for _, load := range []struct {
		name string
		rate float64
		jump time.Duration
	}{
		{"the rate", 10_000, 0},
		{"three times the rate", 30_000, 0},
		{"half as much again, at one node, another one every 300 ms", 15_000, 300 * time.Millisecond},
	} {
		if testing.Short() && load.rate < 30_000 {
			continue
		}
		fmt.Fprintf(&table, "\n%s\n", load.name)
		for _, row := range []struct {
			mode     sim.Mode
			promised func(*sim.Options, *sim.Result) int64
			left     float64 // the part of the decisions that may cost the store anything
			used     float64 // of what one bucket lets pass
		}{
			{sim.Strict, none, 1, 0.99},
			{sim.Leased, none, 0.02, 0.95},
			{sim.Eventual, (*sim.Options).Bound, 0.03, 0.95},
			{sim.Gossip, (*sim.Options).Bound, 0, 0.95},
			{sim.Sticky, none, 0, 1},
		} {
			o := sim.Options{
				Seed: 1, Mode: row.mode, Nodes: 20, Limit: busy, Keys: 1, Length: length,
				Demand:  steady(20, load.rate, length, load.jump),
				Network: sim.Network{Least: 200 * time.Microsecond, Most: 800 * time.Microsecond},
			}
			if testing.Short() && row.mode == sim.Leased {
				row.used, row.left = 0.9, 0.04 // what stays in the bucket weighs more
			}
			res := sim.Run(o)
			promised, left, each := row.promised(&o, &res), res.StoreShare(), res.Messages+res.Calls
			if row.mode == sim.Gossip {
				left = 0 // it is others that are told
			}
			fmt.Fprintf(&table, "| `%v` | %d | %d | %.1f %% | %.2f %% | %.1f | %v | %v | S %v\n", row.mode, promised, res.Over,
				100*res.Utilisation(), 100*left, float64(each)/20/length.Seconds(), res.P50, res.P99, res.Stale)
			if res.Over > promised || left > row.left || res.Utilisation() < row.used {
				t.Errorf("%v, %s: E %d of %d promised, %.1f %% passed, %.2f %% cost the store anything",
					row.mode, load.name, res.Over, promised, 100*res.Utilisation(), 100*left)
			}
		}
	}
	t.Log("mode, E promised, E, of one bucket, decisions that cost the store anything, messages per node and second, p50, p99" + table.String())
}

func none(*sim.Options, *sim.Result) int64 { return 0 }
