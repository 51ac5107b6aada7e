package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"stint/bench/contest"
)

// role is whose a figure is.
type role int

const (
	isFloor role = iota // what the carrier costs; the first of a group is what the others are compared with
	isOurs
	isOursApart // no peer does the same
	isPeer
)

// column is something that is measured.
type column struct {
	name string
	less bool // less is better
}

// contestant is one of a group.
type contestant struct {
	name    string
	role    role
	measure func(ctx context.Context) (map[column]float64, error)
}

// entry is a row of the table: the values of one contestant, one for each round.
type entry struct {
	group, name string
	role        role
	column      column
	values      []float64
	ratios      []float64 // to the floor, in the same rounds
}

// results are all figures of a run.
type results struct {
	flags    string
	busy     string // the load average when the run began; "" if unknown
	rounds   int
	each     time.Duration
	date     time.Time
	entries  []*entry
	versions []string
	commands []string
}

// port matches the port of a server, which is another one in each run.
var port = regexp.MustCompile(`(127\.0\.0\.1:|-p )\d+`)

// command adds how something was measured.
func (r *results) command(what, line string) {
	r.commands = append(r.commands, fmt.Sprintf("%s: `%s`", what, port.ReplaceAllString(line, "${1}PORT")))
}

// turns measures all of a group in each round. Each round begins with another one. The first of the list is the floor.
func (r *results) turns(ctx context.Context, group string, rounds int, list []contestant) error {
	found := map[string]*entry{}
	var order []*entry
	for round := range rounds {
		for i := range list {
			c := list[(i+round)%len(list)]
			if err := ctx.Err(); err != nil {
				return err
			}
			values, err := c.measure(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			for what, value := range values {
				key := c.name + "\n" + what.name
				if found[key] == nil {
					found[key] = &entry{group: group, name: c.name, role: c.role, column: what}
					order = append(order, found[key])
				}
				found[key].values = append(found[key].values, value)
			}
		}
	}
	r.entries = append(r.entries, ranked(order, list)...)
	return nil
}

// ranked computes the ratios, and orders entries by columns and then as in the list.
func ranked(entries []*entry, list []contestant) []*entry {
	place := func(name string) int {
		return slices.IndexFunc(list, func(c contestant) bool { return c.name == name })
	}
	slices.SortFunc(entries, func(a, b *entry) int {
		if d := strings.Compare(a.column.name, b.column.name); d != 0 {
			return d
		}
		return place(a.name) - place(b.name)
	})
	for i, e := range entries {
		first := i
		for first > 0 && entries[first-1].column == e.column {
			first--
		}
		e.ratios = make([]float64, len(e.values))
		for n := range e.values {
			e.ratios[n] = e.values[n] / entries[first].values[n]
		}
	}
	return entries
}

// writeTable writes the table of ratios.
func (r *results) writeTable(w io.Writer) {
	fmt.Fprintln(w, "| | figure | of | smallest | middle | largest |\n|---|---|---|---|---|---|")
	for i, e := range r.entries {
		name := e.name
		if e.role == isOurs || e.role == isOursApart {
			name = "**" + name + "**"
		}
		if i == 0 || r.entries[i-1].column != e.column || r.entries[i-1].group != e.group {
			fmt.Fprintf(w, "| %s | %s%s | %s | | 1 | |\n", e.group, e.column.name, better(e.column), name)
			continue
		}
		fmt.Fprintf(w, "| | | %s | %.2f | %.2f | %.2f |\n", name, slices.Min(e.ratios), contest.Median(e.ratios), slices.Max(e.ratios))
	}
}

func better(c column) string {
	if c.less {
		return " (less is better)"
	}
	return ""
}

// losses returns where a peer is better than ours: the ratio of ours to it.
func (r *results) losses() (lines []string) {
	for _, ours := range r.entries {
		for _, peer := range r.entries {
			if ours.role != isOurs || peer.role != isPeer || ours.group != peer.group || ours.column != peer.column {
				continue
			}
			ratio := contest.Ratio(ours.values, peer.values)
			if ours.column.less && ratio > 1 || !ours.column.less && ratio < 1 {
				lines = append(lines, fmt.Sprintf("%s, %s: %s has %.2f of %s", ours.group, ours.column.name, ours.name, ratio, peer.name))
			}
		}
	}
	return lines
}

// writePage writes docs/benchmarks.md.
func (r *results) writePage(w io.Writer) {
	fmt.Fprintf(w, `# Benchmarks

`+"`make bench`"+` wrote this page on %s: one run of %d rounds, %v for each figure. In each round all of a group had their
turns, and each round began with another one. Each figure is a ratio to the first line of its group, in the same round: 2.00 is
twice as much. Absolute figures depend on the machine; these ratios less, but a busy machine still makes them scatter: look at the smallest
and the largest. Stint's lines are bold.

The first line of a group is a floor: what the carrier costs alone. Servers have one processor, and the load, another. Nothing is denied
unless a line says so. [load.md](load.md) shows how to measure a service of your own.

## Ratios

`, r.date.Format("2006-01-02"), r.rounds, r.each)
	r.writeTable(w)
	fmt.Fprint(w, "\n## Where Stint loses\n\n")
	losses := r.losses()
	for _, line := range losses {
		fmt.Fprintln(w, "-", line)
	}
	if len(losses) == 0 {
		fmt.Fprintln(w, "To none of the peers above, by the middle ratio. Floors are not peers: they decide nothing.")
	}
	fmt.Fprint(w, "\n## Machine and versions\n\n")
	if r.busy != "" {
		fmt.Fprintf(w, "- Load average %s when the run began: from 1 on the machine did other work too.\n", r.busy)
	}
	for _, line := range r.versions {
		fmt.Fprintln(w, "-", line)
	}
	fmt.Fprint(w, "\n## Commands\n\n")
	for _, line := range append([]string{"all: `go -C bench run ." + r.flags + "` (`make bench`)"}, r.commands...) {
		fmt.Fprintln(w, "-", line)
	}
	fmt.Fprintln(w, `
Peers that are servers take part if their programs are there: throttlecrab-server is built by cargo, and
BENCH_RATELIMIT, BENCH_LIMITADOR and BENCH_GUBERNATOR name the others.`)
}

// busy returns the load average of the last minute.
func busy() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// model returns the name of the processor.
func model() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
