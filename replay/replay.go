package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"stint"
	"stint/internal/text"
	"stint/replay/accesslog"
	"stint/rule"
)

// DefaultReorder is a reorder window that fits most servers: longer requests are rare.
const DefaultReorder = 2 * time.Minute

// Options are the options of Run. Exactly one of Limit and Rules must be set.
type Options struct {
	// Limit applies to all lines, see [ParseLimit].
	Limit *Limit

	// Rules is a table of rules. Each domain with an http section decides each line that it
	// matches. A line is denied if one of the domains denies it.
	Rules *rule.Table

	// Reorder is the reorder window: a line that is older than the newest line by at most this time
	// is put in order. All lines of the window are held in memory. With 0 lines are decided in the
	// order of the log, and each line older than an earlier one counts as late.
	Reorder time.Duration

	// Algorithms are compared with the given limits; nil means all five. An empty list compares
	// nothing, which is two to three times as fast.
	Algorithms []stint.Algorithm

	// Sweep adds a curve for each limit to the report: what it would deny with other numbers of
	// requests. The memory for it grows with the log, by about five bytes for each line.
	Sweep bool

	// Advise adds advice about the rules to the report. With a Limit, AdviseBy must have the rules of
	// [Limit.RuleText].
	Advise   bool
	AdviseBy *rule.Table

	// Progress, if not nil, is called after every block with the number of (compressed) bytes read
	// and their total. total is 0 if a size is unknown. Run calls it in its own goroutine.
	Progress func(read, total int64)
}

// check returns an error for invalid options.
func (o *Options) check() error {
	switch {
	case (o.Limit == nil) == (o.Rules == nil):
		return errors.New("replay: give either a limit or rules")
	case o.Advise && o.Limit != nil && o.AdviseBy == nil:
		return errors.New("replay: advice about a limit needs it as a rule")
	case o.Reorder < 0:
		return fmt.Errorf("replay: a reorder window of %v is negative", o.Reorder)
	}
	for i, a := range o.Algorithms {
		if !slices.Contains(Algorithms, a) || slices.Contains(o.Algorithms[:i], a) {
			return fmt.Errorf("replay: algorithm %v is unknown or listed twice", a)
		}
	}
	return nil
}

// decider decides lines. prepare stores what decide needs of a line and returns a number for it.
// decide is called later with this number, when the line is next in order.
type decider interface {
	prepare(r *accesslog.Record) (ref uint32, err error)
	decide(at stint.Instant, ref uint32) error
	needs() accesslog.Parts
	report(r *Report)
}

// Run reads the inputs one after another and decides their lines. If ctx ends before, it returns the
// error of ctx and a report of the lines that it has read. An input that cannot be read is an error. Lines that cannot be parsed are counted, and truncated
// compressed data is noted in the report.
func Run(ctx context.Context, opts Options, inputs []accesslog.Input) (*Report, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	d, err := newDecider(&opts)
	if err != nil {
		return nil, err
	}
	return decide(ctx, &opts, d, inputs)
}

// decide lets a decider decide the lines of the inputs.
func decide(ctx context.Context, opts *Options, d decider, inputs []accesslog.Input) (*Report, error) {
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
	var interrupted error
	for _, in := range inputs {
		if err := run.input(ctx, in); err != nil && ctx.Err() == nil {
			return nil, err
		}
		if interrupted = ctx.Err(); interrupted != nil {
			run.report.interrupt(run.read, run.total)
			break
		}
	}
	if err := run.queue.Flush(); err != nil {
		return nil, err
	}
	run.report.Late = run.queue.Late()
	run.report.Formats = run.formats.counts()
	d.report(run.report)
	run.report.finish(opts)
	return run.report, interrupted
}

func newDecider(opts *Options) (decider, error) {
	if opts.Rules != nil {
		return newRulesDecider(opts)
	}
	if opts.Advise {
		return newLimitAdviser(opts)
	}
	return newLimitDecider(opts), nil
}

// run is the state of one replay.
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

// maxSamples is the number of unparseable lines that a report shows.
const maxSamples = 3

// input reads one input.
func (r *run) input(ctx context.Context, in accesslog.Input) error {
	l, err := accesslog.Open(in.Until(ctx), r.buf, func(n int) error {
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
		r.report.note("%s ends in damaged gzip data (%v); the lines before the damage are counted.", in.Name, l.Cause())
		return nil
	}
	return l.Err()
}

// line parses a line and passes it to the reorder window.
func (r *run) line(line []byte, name string, number int64) error {
	r.report.Lines++
	rec, ok := r.parser.Parse(line)
	if !ok {
		r.report.Unparseable++
		if r.parser.Nameless() {
			r.report.Nameless++
		}
		if len(r.report.Samples) < maxSamples {
			r.report.Samples = append(r.report.Samples, Sample{Input: name, Line: number, Text: text.Visible(string(line[:min(len(line), 4*maxSample)]), maxSample)})
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
