package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"stint"
	"stint/replay/accesslog"
	"stint/rule"
)

// DefaultReorder is the reorder window that fits most servers: requests longer than
// it are rare.
const DefaultReorder = 2 * time.Minute

// Options say what is replayed. Exactly one of Limit and Rules is set.
type Options struct {
	// Limit is one limit for all lines, see [ParseLimit].
	Limit *Limit

	// Rules is a table of which every domain with http rate limits describes and
	// decides each line. Where several do, the line is denied if one of them denies.
	Rules *rule.Table

	// Reorder is how far a line may stand behind a newer one and still be put in
	// order. Each line of the window is held in memory. 0: lines are taken as they
	// come, and those older than one before count as late.
	Reorder time.Duration

	// Algorithms are compared beside the limits as they stand. nil: all five. An
	// empty list compares nothing, which is two to three times as fast.
	Algorithms []stint.Algorithm

	// Progress, if set, is told after every block how many bytes of the inputs were
	// read, still packed, and how many there are; total is 0 where a size is unknown.
	// It is called from the goroutine of Run.
	Progress func(read, total int64)
}

// check returns what is wrong with the options.
func (o *Options) check() error {
	switch {
	case (o.Limit == nil) == (o.Rules == nil):
		return errors.New("replay: give either a limit or rules")
	case o.Reorder < 0:
		return fmt.Errorf("replay: a reorder window of %v is negative", o.Reorder)
	}
	for i, a := range o.Algorithms {
		if !slices.Contains(Algorithms, a) || slices.Contains(o.Algorithms[:i], a) {
			return fmt.Errorf("replay: cannot compare %v, or not twice", a)
		}
	}
	return nil
}

// decider decides lines. prepare keeps what it needs of a line, until decide is
// called with the number that prepare returned; between the two the line waits for
// its turn.
type decider interface {
	prepare(r *accesslog.Record) (ref uint32, err error)
	decide(at stint.Instant, ref uint32) error
	needs() accesslog.Parts
	report(r *Report)
}

// Run reads the inputs, one after the other, and decides their lines. It stops when
// ctx is done. Input that cannot be read is an error; a line that cannot, and packed
// data that ends early, are counted or noted in the report.
func Run(ctx context.Context, opts Options, inputs []accesslog.Input) (*Report, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	d, err := newDecider(&opts)
	if err != nil {
		return nil, err
	}
	run := &run{decider: d, report: &Report{}, progress: opts.Progress}
	run.parser.Parts = d.needs()
	run.queue = accesslog.NewQueue(opts.Reorder.Microseconds(), d.decide)
	for _, in := range inputs {
		if in.Size <= 0 {
			run.total = 0
			break
		}
		run.total += in.Size
	}
	for _, in := range inputs {
		if err := run.input(ctx, in); err != nil {
			return nil, err
		}
	}
	if err := run.queue.Flush(); err != nil {
		return nil, err
	}
	run.report.Late = run.queue.Late()
	run.report.Formats = run.formats.counts()
	d.report(run.report)
	run.report.finish(&opts)
	return run.report, nil
}

func newDecider(opts *Options) (decider, error) {
	if opts.Rules != nil {
		return newRulesDecider(opts)
	}
	return newLimitDecider(opts), nil
}

// run is one replay under way.
type run struct {
	decider  decider
	parser   accesslog.Parser
	queue    *accesslog.Queue
	report   *Report
	formats  formatCounter
	buf      []byte
	read     int64
	total    int64
	progress func(read, total int64)
}

// maxSamples is how many lines that could not be parsed are shown.
const maxSamples = 3

// input reads one input.
func (r *run) input(ctx context.Context, in accesslog.Input) error {
	l, err := accesslog.Open(in, r.buf, func(n int) error {
		r.count(n)
		return ctx.Err()
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	}
	defer l.Close()
	for n := int64(1); ; n++ {
		line, more := l.Next()
		if !more {
			break
		}
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if err := r.line(line, in.Name, n); err != nil {
			return err
		}
	}
	r.buf = l.Buffer()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case l.Damaged():
		r.report.note("%s ends in damaged gzip data (%v); what could be unpacked before is counted.", in.Name, l.Cause())
		return nil
	}
	return l.Err()
}

// line parses a line and puts it in its place.
func (r *run) line(line []byte, name string, number int64) error {
	r.report.Lines++
	rec, ok := r.parser.Parse(line)
	if !ok {
		r.report.Unparseable++
		if r.parser.Nameless() {
			r.report.Nameless++
		}
		if len(r.report.Samples) < maxSamples {
			r.report.Samples = append(r.report.Samples, Sample{Input: name, Line: number, Text: printable(string(line[:min(len(line), 4*maxSample)]), maxSample)})
		}
		return nil
	}
	r.report.Parsed++
	r.formats[rec.Format]++
	if rec.Status == 429 {
		r.report.Refused++
	}
	ref, err := r.decider.prepare(rec)
	if err != nil {
		return err
	}
	return r.queue.Put(rec.At, ref)
}

func (r *run) count(n int) {
	r.read += int64(n)
	if r.progress != nil {
		r.progress(r.read, r.total)
	}
}
