package replay

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"stint"
	"stint/internal/text"
	"stint/internal/web"
	"stint/replay/accesslog"
	"stint/replay/whatif"
)

// limitDecider decides by one limit. It looks up the key of a line once; the states of all
// algorithms are stored together.
type limitDecider struct {
	limit  *Limit
	limits []*stint.Limit // the limit of each column
	specs  []stint.Algorithm
	broken []string // reasons why algorithms are not compared

	tally     *tally
	names     *text.Interner
	key       []byte
	keyed     bool // the limit has separate buckets
	stored    whatif.StateTable
	unlimited int64         // number of lines without a key
	sweep     *whatif.Sweep // nil: no curve is asked for
	outcome   outcome
}

func newLimitDecider(opts *Options) *limitDecider {
	d := &limitDecider{limit: opts.Limit, names: text.NewInterner(), keyed: len(opts.Limit.By) > 0}
	compared := opts.Algorithms
	if compared == nil {
		compared = Algorithms
	}
	main := -1
	for _, a := range compared {
		limit, err := d.limit.variant(a)
		if err != nil {
			d.broken = append(d.broken, fmt.Sprintf("%v is not compared: %v.", a, err))
			continue
		}
		if a == d.limit.Limit.Algorithm() {
			main = len(d.limits)
		}
		d.limits = append(d.limits, limit)
	}
	if main < 0 {
		main = len(d.limits)
		d.limits = append(d.limits, d.limit.Limit)
	}
	d.specs = compared
	d.tally = newTally(len(d.limits), main)
	d.stored = whatif.NewStateTable(len(d.limits))
	if !d.keyed {
		d.stored.Add()
	}
	if opts.Sweep {
		d.sweep = whatif.NewSweep(d.limit.Text, d.limit.Limit)
	}
	return d
}

// variant returns the limit under an algorithm: the limit itself for its own algorithm, otherwise a
// limit with the same requests and period, and the same burst if the algorithm has one.
func (l *Limit) variant(a stint.Algorithm) (*stint.Limit, error) {
	spec := l.Limit.Spec()
	if spec.Algorithm == a {
		return l.Limit, nil
	}
	return stint.NewLimit(plainSpec(a, spec.Requests, spec.Per, l.Burst))
}

func (d *limitDecider) needs() accesslog.Parts {
	var p accesslog.Parts
	if slices.Contains(d.limit.By, ByUser) {
		p |= accesslog.User
	}
	if slices.Contains(d.limit.By, ByAgent) {
		p |= accesslog.Headers
	}
	return p
}

// prepare returns the number of the key of a line.
func (d *limitDecider) prepare(r *accesslog.Record) (uint32, error) {
	if !d.appendKey(r) {
		return noClient, nil
	}
	id := d.names.Number(d.key)
	d.tally.known(id)
	if d.keyed && int(id) == d.stored.Len() {
		d.stored.Add()
	}
	return id, nil
}

// appendKey writes the values that the limit counts by into key, joined by "+". For a limit that
// counts all lines together it writes the client. It returns false if the line lacks a value.
// Values may contain a "+", so the lengths of all but the last follow, four bytes each; this makes
// keys unique.
func (d *limitDecider) appendKey(r *accesslog.Record) bool {
	d.key = d.key[:0]
	if !d.keyed {
		d.key = appendClient(d.key, r)
		return true
	}
	var lengths [len(fieldNames) * 4]byte
	tail := lengths[:0]
	for i, field := range d.limit.By {
		if i > 0 {
			tail = binary.BigEndian.AppendUint32(tail, uint32(len(d.key)))
			d.key = append(d.key, '+')
		}
		before := len(d.key)
		switch field {
		case ByIP:
			d.key = appendClient(d.key, r)
		case ByPath:
			d.key = append(d.key, r.Path...)
		case ByMethod:
			d.key = append(d.key, r.Method...)
		case ByUser:
			d.key = append(d.key, r.User...)
		case ByAgent:
			d.key = append(d.key, r.Agent...)
		}
		if len(d.key) == before {
			return false
		}
	}
	d.key = append(d.key, tail...)
	return true
}

// appendClient appends the client: its IPv4 address, the /64 of its IPv6 address, or its name.
func appendClient(b []byte, r *accesslog.Record) []byte {
	if addr := r.Address(); addr.Is6() {
		return append(web.GroupAddr(addr, 0).AppendTo(b), "/64"...)
	}
	return r.AppendHost(b)
}

// keyText returns a key for output.
func (d *limitDecider) keyText(id uint32) string {
	key := d.names.Texts[id]
	return text.Visible(key[:len(key)-4*max(0, len(d.limit.By)-1)], maxKey)
}

func (d *limitDecider) decide(at stint.Instant, ref uint32) error {
	o := &d.outcome
	o.denied = 0
	if ref == noClient {
		d.unlimited++
		o.delay = [whatif.MaxColumns]time.Duration{}
		d.tally.note(at, noClient, o)
		return nil
	}
	key := uint32(0) // the only key
	if d.keyed {
		key = ref
	}
	if d.sweep != nil {
		d.sweep.Take(at, d.bucket(ref), 1)
	}
	states := d.stored.Of(key)
	logged := whatif.HasLog(states)
	for i, limit := range d.limits {
		answer := limit.Take(&states[i], at, 1)
		if !answer.Allowed {
			o.denied |= 1 << i
		}
		o.delay[i] = answer.Delay
	}
	if !logged && whatif.HasLog(states) {
		d.stored.Gained(key)
	}
	d.stored.Forget(at, d.limitsOf)
	d.tally.note(at, ref, o)
	return nil
}

// bucket returns the key of the bucket of a line, which is empty if all lines share one.
func (d *limitDecider) bucket(ref uint32) string {
	if !d.keyed {
		return ""
	}
	return d.names.Texts[ref]
}

func (d *limitDecider) limitsOf(uint32) []*stint.Limit { return d.limits }

func (d *limitDecider) report(r *Report) {
	d.tally.finish()
	d.tally.report(r, d.keyText)
	main := d.tally.columns[d.tally.main]
	r.Rules = []RuleCount{{Rule: d.limit.Text, Allowed: main.allowed - d.unlimited, Denied: main.denied}}
	r.Unmatched = d.unlimited
	r.Limit, r.Algorithm = d.limit.Text, d.limit.Limit.Algorithm().String()
	r.ClientKind = d.limit.nouns()[1]
	r.Algorithms, r.Comparison = []AlgorithmCount{}, []Comparison{}
	for i, limit := range d.limits {
		if slices.Contains(d.specs, limit.Algorithm()) {
			r.compare(d.tally, i, limit.Algorithm(), numbers(limit))
		}
	}
	r.Notes = append(r.Notes, d.broken...)
	if d.sweep != nil {
		r.addCurve(d.sweep.Curve())
	}
}

// numbers returns the numbers of a limit as text.
func numbers(l *stint.Limit) string {
	spec := l.Spec()
	words := fmt.Sprintf("%s per %s", text.Thousands(int64(spec.Requests)), span(spec.Per))
	switch spec.Algorithm {
	case stint.TokenBucket, stint.LeakyBucket:
		words += fmt.Sprintf(", burst %s", text.Thousands(int64(spec.Burst)))
	case stint.SlidingWindow:
		words += fmt.Sprintf(", blocks %d", spec.Blocks)
	}
	return words
}

// span formats a duration without trailing zeros: 15m, not 15m0s.
func span(d time.Duration) string {
	if d > 0 && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	return text.ShortDuration(d)
}
