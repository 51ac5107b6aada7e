package replay

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"stint"
	"stint/internal/accesslog"
	"stint/internal/query"
	"stint/limiter"
	"stint/rule"
)

// rulesDecider decides by a table of rules, on the same path as the service: what
// the domain makes of the request goes through the limiter.
type rulesDecider struct {
	table    *rule.Table
	domains  []*rule.Domain // that describe HTTP requests
	compared []stint.Algorithm
	limiter  *limiter.Limiter
	states   *states
	counts   []RuleCount // by rule.Index
	broken   []string    // what is not compared

	tally     *tally
	clients   *names
	name      []byte
	waiting   []logLine // lines that wait for their turn
	free      []uint32  // places in waiting
	unmatched int64

	request     limiter.Request
	descriptors []rule.Descriptor
	verdict     limiter.Verdict
	outcome     outcome
}

// ruleColumn is the column of the rules as they stand. The compared algorithms
// follow.
const ruleColumn = 0

func newRulesDecider(opts *Options) (*rulesDecider, error) {
	d := &rulesDecider{table: opts.Rules, compared: opts.Algorithms, clients: newNames()}
	if d.compared == nil {
		d.compared = Algorithms
	}
	for _, domain := range d.table.Domains() {
		if domain.HasHTTP() {
			d.domains = append(d.domains, domain)
		}
	}
	if len(d.domains) == 0 {
		return nil, &InputError{
			Name: "rules", Problem: "no domain says how an HTTP request becomes descriptors",
			Hint: "add http: {rate_limits: [{actions: [{remote_address: {}}]}]} beside domain:, or replay a single limit",
		}
	}
	d.states = newStates(1 + len(d.compared))
	for _, r := range d.table.Rules() {
		d.counts = append(d.counts, RuleCount{Rule: r.Name})
		d.states.variants[r.Limit] = d.variants(r)
	}
	d.limiter = limiter.New(d.states, d.table, limiter.Options{})
	d.tally = newTally(1+len(d.compared), ruleColumn)
	return d, nil
}

// variants returns the limit of a rule in each column: in that of its own algorithm
// as it stands, in the others with the same requests and period.
func (d *rulesDecider) variants(r *rule.Rule) []*stint.Limit {
	limits := []*stint.Limit{r.Limit}
	spec := r.Limit.Spec()
	for _, a := range d.compared {
		limit := r.Limit
		if spec.Algorithm != a && spec.Algorithm != stint.Unlimited {
			plain, err := stint.NewLimit(plainSpec(a, spec.Requests, length(&spec), 0))
			if err == nil {
				limit = plain
			} else {
				d.broken = append(d.broken, fmt.Sprintf("Rule %s is compared as it stands under %v: %v.", r.Name, a, err))
			}
		}
		limits = append(limits, limit)
	}
	return limits
}

// length is how long a period is, the usual length for one of the calendar.
func length(spec *stint.Spec) time.Duration {
	const day = 24 * time.Hour
	switch spec.Calendar {
	case stint.Day:
		return day
	case stint.Week:
		return 7 * day
	case stint.Month:
		return 30 * day
	case stint.Year:
		return 365 * day
	}
	return spec.Per
}

func (d *rulesDecider) needs() accesslog.Parts { return accesslog.Headers }

// prepare keeps what the line supplies to rules.
func (d *rulesDecider) prepare(r *accesslog.Record) (uint32, error) {
	d.name = appendClient(d.name[:0], r)
	client := d.clients.id(d.name)
	d.tally.known(client)
	var ref uint32
	if n := len(d.free); n > 0 {
		ref, d.free = d.free[n-1], d.free[:n-1]
	} else {
		ref = uint32(len(d.waiting))
		d.waiting = append(d.waiting, logLine{})
	}
	d.waiting[ref] = newLogLine(r, client)
	return ref, nil
}

func (d *rulesDecider) decide(at stint.Instant, ref uint32) error {
	line := &d.waiting[ref]
	d.outcome = outcome{}
	matched := false
	for _, domain := range d.domains {
		if err := d.describe(domain, line); err != nil {
			return fmt.Errorf("replay: %w", err)
		}
		d.request.At = at
		if err := d.limiter.Decide(context.Background(), &d.request, &d.verdict); err != nil {
			return fmt.Errorf("replay: %w", err)
		}
		matched = matched || len(d.verdict.Asked) > 0 || d.verdict.Listed != nil
		d.conclude()
	}
	if !matched {
		d.unmatched++
	}
	d.tally.note(at, line.client, &d.outcome)
	*line = logLine{}
	d.free = append(d.free, ref)
	return nil
}

// describe turns the line into the request for a domain.
func (d *rulesDecider) describe(domain *rule.Domain, line *logLine) error {
	var err error
	if d.descriptors, err = domain.Describe(d.descriptors[:0], line); err != nil {
		return err
	}
	d.request.Domain, d.request.Attributes = domain.Name(), line
	d.request.Descriptors = d.request.Descriptors[:0]
	for i := range d.descriptors {
		d.request.Descriptors = append(d.request.Descriptors, limiter.Descriptor{Entries: d.descriptors[i].Entries, Cost: d.descriptors[i].Cost})
	}
	return nil
}

// conclude adds the verdict to the outcome of the line, and to the counts of rules.
func (d *rulesDecider) conclude() {
	o := &d.outcome
	asked := d.verdict.Asked
	for i := range asked {
		if c := &d.counts[asked[i].Rule.Index]; asked[i].Allowed {
			c.Allowed++
		} else {
			c.Denied++
		}
	}
	if d.verdict.Listed != nil && !d.verdict.Allowed {
		o.denied |= 1<<(len(d.compared)+1) - 1 // by a list, whatever the algorithm
	}
	if len(asked) == 0 {
		return
	}
	if !d.verdict.Allowed {
		o.denied |= 1 << ruleColumn
	}
	o.delay[ruleColumn] = max(o.delay[ruleColumn], d.verdict.Delay)
	for column := 1; column <= len(d.compared); column++ {
		if d.denies(asked, column) {
			o.denied |= 1 << column
		}
		o.delay[column] = max(o.delay[column], d.states.delay[column])
	}
}

// denies says whether the limits that were asked deny the request in a column, by
// the rules of limiter.Verdict: shadow limits never do, limits in quota mode only
// all together.
func (d *rulesDecider) denies(asked []limiter.Asked, column int) bool {
	quotas, spent, take := 0, 0, 0
	for i := range asked {
		r := asked[i].Rule
		denied := false
		if r.Limit.Algorithm() != stint.Unlimited {
			denied = d.states.denied[take]>>column&1 != 0
			take++
		}
		switch {
		case r.Quota:
			quotas++
			if denied {
				spent++
			}
		case denied && !r.Shadow:
			return true
		}
	}
	return quotas > 0 && spent == quotas
}

func (d *rulesDecider) report(r *Report) {
	d.tally.finish()
	d.tally.report(r, func(id uint32) string { return printable(d.clients.texts[id], maxKey) })
	r.Rules, r.Unmatched, r.ClientKind = d.counts, d.unmatched, fieldNouns[ByIP][1]
	if r.Rules == nil {
		r.Rules = []RuleCount{}
	}
	for _, rule := range d.table.Rules() {
		if rule.Shadow {
			r.ShadowRules = append(r.ShadowRules, rule.Name)
		}
	}
	r.Algorithms, r.Comparison = []AlgorithmCount{}, []Comparison{}
	for i, a := range d.compared {
		r.compare(d.tally, i+1, a, "rates of the rules"+extras[a])
	}
	r.Notes = append(r.Notes, d.broken...)
}

// extras are the other numbers of an algorithm where a rule is of another one.
var extras = map[stint.Algorithm]string{
	stint.TokenBucket:   ", burst = requests",
	stint.LeakyBucket:   ", burst 0",
	stint.SlidingWindow: ", blocks 1",
}

// logLine is what a line supplies to the actions of a domain. It outlives the line,
// because lines wait for their turn.
type logLine struct {
	text   string // the parts, one behind the other
	ends   [6]uint32
	addr   netip.Addr
	client uint32
}

var _ rule.Attributes = (*logLine)(nil)

// The parts of logLine.text.
const (
	partMethod = iota
	partPath
	partQuery
	partAgent
	partReferer
	partServer
)

func newLogLine(r *accesslog.Record, client uint32) logLine {
	l := logLine{addr: r.Address(), client: client}
	parts := [...][]byte{r.Method, r.Path, r.Query, r.Agent, r.Referer, r.Server}
	total := 0
	for i, p := range parts {
		total += len(p)
		l.ends[i] = uint32(total)
	}
	var b strings.Builder
	b.Grow(total)
	for _, p := range parts {
		b.Write(p)
	}
	l.text = b.String()
	return l
}

func (l *logLine) part(i int) string {
	from := uint32(0)
	if i > 0 {
		from = l.ends[i-1]
	}
	return l.text[from:l.ends[i]]
}

// Method returns the method of the request.
func (l *logLine) Method() string { return l.part(partMethod) }

// Path returns the path of the request without the query.
func (l *logLine) Path() string { return l.part(partPath) }

// RemoteAddress returns the client's address, invalid for a name.
func (l *logLine) RemoteAddress() netip.Addr { return l.addr }

// Header returns a header, of those that a log line may have.
func (l *logLine) Header(name string) (string, bool) {
	value := ""
	switch {
	case strings.EqualFold(name, "User-Agent"):
		value = l.part(partAgent)
	case strings.EqualFold(name, "Referer"):
		value = l.part(partReferer)
	case strings.EqualFold(name, "Host"):
		value = l.part(partServer)
	}
	return value, value != ""
}

// Query returns the first value of a query parameter.
func (l *logLine) Query(name string) (string, bool) { return query.First(l.part(partQuery), name) }
