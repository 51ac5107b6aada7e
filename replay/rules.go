package replay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"stint"
	"stint/facts/advice"
	"stint/internal/text"
	"stint/limiter"
	"stint/replay/accesslog"
	"stint/replay/whatif"
	"stint/rule"
)

var _ rule.Attributes = (*accesslog.Request)(nil)

// rulesDecider decides by a table of rules, with the same code as the service: it describes each
// request by the domain and passes it to the limiter.
type rulesDecider struct {
	table    *rule.Table
	domains  []*rule.Domain // domains with an http section
	compared []stint.Algorithm
	limiter  *limiter.Limiter
	states   *whatif.Columns
	counts   []RuleCount // by rule.Index

	candidates map[*rule.Rule]*candidate

	tally     *tally
	clients   *text.Interner
	name      []byte
	waiting   []accesslog.Request // lines not decided yet
	free      []uint32            // free slots in waiting
	unmatched int64
	remarks

	sweeps  []*whatif.Sweep // by rule.Index; nil: no curves are asked for
	denials *whatif.Denials // nil: not asked for
	adviser *adviser        // nil: no advice is asked for

	request     limiter.Request
	descriptors []rule.Descriptor
	verdict     limiter.Verdict
	outcome     outcome
}

func newRulesDecider(opts *Options) (*rulesDecider, error) {
	d := &rulesDecider{table: opts.Rules, compared: opts.Algorithms, clients: text.NewInterner()}
	if d.compared == nil {
		d.compared = Algorithms
	}
	for _, domain := range d.table.Domains() {
		if domain.HasHTTP() {
			d.domains = append(d.domains, domain)
		}
	}
	if len(d.domains) == 0 {
		return nil, &accesslog.InputError{
			Name: "rules", Problem: "no domain has an http section, which turns requests into descriptors",
			Hint: "add http: {rate_limits: [{actions: [{remote_address: {}}]}]} beside domain:, or replay a single limit",
		}
	}
	d.states = whatif.NewColumns(1 + len(d.compared))
	d.overOf = make([]int64, len(d.table.Rules()))
	for _, r := range d.table.Rules() {
		d.counts = append(d.counts, RuleCount{Rule: r.Name})
		if opts.Sweep {
			d.sweeps = append(d.sweeps, whatif.NewSweep(r.Name, r.Limit))
		}
		d.states.Set(r.Stored, &whatif.Kind{Limits: d.variants(r, r.Stored), Answers: r.Answers, Shadow: r.Shadow})
		if r.Elastic != nil {
			d.states.Set(r.Elastic.Cap, &whatif.Kind{Limits: d.variants(r, r.Elastic.Cap)})
		}
		if r.Penalty != nil { // the same in all columns, but only the first counts tries
			d.states.Set(r.Penalty, &whatif.Kind{Limits: slices.Repeat([]*stint.Limit{r.Penalty}, 1+len(d.compared)), Shadow: r.Shadow})
		}
	}
	if opts.Advise {
		d.adviser = &adviser{table: d.table}
	}
	d.addCandidates()
	d.limiter = limiter.New(d.states, d.table, limiter.Options{})
	d.tally = newTally(1+len(d.compared), whatif.Written)
	return d, nil
}

// variants returns a limit for each column: the limit of the rule itself for its own algorithm,
// otherwise one with the same requests and period. Limits of the other columns make no
// reservations; their takes are settled immediately.
func (d *rulesDecider) variants(r *rule.Rule, limit *stint.Limit) []*stint.Limit {
	spec := limit.Spec()
	limits := []*stint.Limit{limit}
	for _, a := range d.compared {
		other := spec
		other.Reserve = false
		if spec.Algorithm != a && spec.Algorithm != stint.Unlimited {
			other = plainSpec(a, spec.Requests, length(&spec), 0)
		}
		plain, err := stint.NewLimit(other)
		if err != nil {
			plain = limit
			d.notCompared(r, a, err)
		}
		limits = append(limits, plain)
	}
	return limits
}

// notCompared notes that an algorithm does not accept the numbers of a rule.
func (d *rulesDecider) notCompared(r *rule.Rule, a stint.Algorithm, err error) {
	note := fmt.Sprintf("Rule %s keeps its own algorithm in the comparison with %v: %v.", r.Name, a, err)
	if !slices.Contains(d.broken, note) {
		d.broken = append(d.broken, note)
	}
}

// length returns the length of a period; for a calendar period, its usual length.
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

// prepare stores the parts of a line that rules need.
func (d *rulesDecider) prepare(r *accesslog.Record) (uint32, error) {
	d.name = appendClient(d.name[:0], r)
	client := d.clients.Number(d.name)
	d.tally.known(client)
	var ref uint32
	if n := len(d.free); n > 0 {
		ref, d.free = d.free[n-1], d.free[:n-1]
	} else {
		ref = uint32(len(d.waiting))
		d.waiting = append(d.waiting, accesslog.Request{})
	}
	d.waiting[ref] = accesslog.NewRequest(r, client)
	return ref, nil
}

func (d *rulesDecider) decide(at stint.Instant, ref uint32) error {
	line := &d.waiting[ref]
	d.outcome, d.above = outcome{}, false
	matched := false
	for _, domain := range d.domains {
		known, err := d.domain(domain, at, line)
		if err != nil {
			return fmt.Errorf("replay: %w", err)
		}
		matched = matched || known
	}
	if !matched {
		d.unmatched++
	}
	if d.above && d.outcome.denied>>whatif.Written&1 == 0 {
		d.over++
	}
	d.tally.note(at, line.Client, &d.outcome)
	*line = accesslog.Request{}
	d.free = append(d.free, ref)
	return nil
}

// domain decides a line by one domain and reports whether the domain matches it.
func (d *rulesDecider) domain(domain *rule.Domain, at stint.Instant, line *accesslog.Request) (bool, error) {
	if err := d.describe(domain, line); err != nil {
		return true, d.misstated(err)
	}
	d.request.At, d.request.Answers = at, line.Status != 0
	if err := d.limiter.Decide(context.Background(), &d.request, &d.verdict); err != nil {
		return false, err
	}
	if d.adviser != nil {
		if err := d.adviser.observe(at, &d.verdict); err != nil {
			return false, err
		}
	}
	return len(d.verdict.Asked) > 0 || d.verdict.Listed != nil, d.conclude(at, line)
}

// misstated denies a line with an invalid cost, or with a path that has too many readings.
func (d *rulesDecider) misstated(err error) error {
	if _, ok := errors.AsType[*rule.PathError](err); ok {
		d.badPath(err)
	} else if _, ok := errors.AsType[*rule.CostError](err); ok {
		d.badCost(err)
	} else {
		return err
	}
	d.outcome.denied |= d.everywhere()
	return nil
}

// everywhere returns the bits of all columns.
func (d *rulesDecider) everywhere() uint8 { return 1<<(len(d.compared)+1) - 1 }

// describe turns a line into a request for a domain.
func (d *rulesDecider) describe(domain *rule.Domain, line *accesslog.Request) error {
	var err error
	if d.descriptors, err = domain.Describe(d.descriptors[:0], line, rule.AnyPhase); err != nil {
		return err
	}
	d.request.Domain, d.request.Attributes = domain.Name(), line
	d.request.Descriptors = d.request.Descriptors[:0]
	for i := range d.descriptors {
		d.request.Descriptors = append(d.request.Descriptors, limiter.Descriptor{Entries: d.descriptors[i].Entries, Cost: d.descriptors[i].Cost})
	}
	return nil
}

// conclude adds the verdict to the outcome of the line and to the counts of the rules, and settles
// the verdict with the status of the line.
func (d *rulesDecider) conclude(at stint.Instant, line *accesslog.Request) error {
	o, v := &d.outcome, &d.verdict
	d.count(at, line)
	d.countCandidates(line.Client)
	if v.Listed != nil && !v.Allowed {
		o.denied |= d.everywhere() // under every algorithm
	}
	if len(v.Asked) == 0 {
		return nil
	}
	statuses := [whatif.MaxColumns]int{whatif.Written: int(line.Status)}
	if !v.Allowed {
		o.denied |= 1 << whatif.Written
		statuses[whatif.Written] = refusal(v.Rule)
	}
	d.above = d.above || v.Over
	o.delay[whatif.Written] = max(o.delay[whatif.Written], v.Delay)
	for column := 1; column <= len(d.compared); column++ {
		statuses[column] = int(line.Status)
		if r := d.denies(v.Asked, column); r != nil {
			o.denied |= 1 << column
			statuses[column] = refusal(r)
		}
		o.delay[column] = max(o.delay[column], d.states.Delay[column])
	}
	if line.Status != 0 {
		d.states.Settle(at, &statuses)
	}
	if !v.Reserved() {
		return nil
	}
	return d.limiter.Settle(context.Background(), v, statuses[whatif.Written])
}

// refusal returns the HTTP status for a denial by a rule.
func refusal(r *rule.Rule) int {
	if r != nil && r.Denial != nil {
		return r.Denial.Status
	}
	return http.StatusTooManyRequests
}

// count adds the decisions of the rules to their counts.
func (d *rulesDecider) count(at stint.Instant, line *accesslog.Request) {
	noStatus := false
	for i := range d.verdict.Asked {
		a := &d.verdict.Asked[i]
		c := &d.counts[a.Rule.Index]
		switch {
		case a.Cost == 0: // nothing was taken
			continue
		case a.Allowed:
			c.Allowed++
		default:
			c.Denied++
		}
		if a.Over {
			d.overOf[a.Rule.Index]++
		}
		if t := d.verdict.Take(i); t != nil {
			d.watch(at, a, string(t.Key), int(line.Status))
		}
		noStatus = noStatus || a.Rule.Answers != nil && line.Status == 0
	}
	if noStatus {
		d.noStatus++
	}
}

// watch passes a take to what was asked for beside the counts.
func (d *rulesDecider) watch(at stint.Instant, a *limiter.Asked, key string, status int) {
	if d.sweeps != nil && (a.Rule.Answers == nil || status == 0 || a.Rule.Answers.Charges(status)) {
		d.sweeps[a.Rule.Index].Take(at, key, a.Cost)
	}
	if d.denials != nil {
		d.denials.Take(a.Rule, key, d.verdict.Entries(a.Descriptor), a.Allowed)
	}
}

// denies returns the rule that denies the request in a column, or nil, as limiter.Verdict does:
// limits in shadow mode never deny, and limits in quota mode deny only all together.
func (d *rulesDecider) denies(asked []limiter.Asked, column int) *rule.Rule {
	quotas, spent, lead := 0, 0, 0
	var quota *rule.Rule
	for i := range asked {
		r := asked[i].Rule
		denied := false
		if r.Limit.Algorithm() != stint.Unlimited {
			denied = d.states.Denied[d.states.Primary[lead]]>>column&1 != 0
			lead++
		}
		switch {
		case r.Quota:
			quotas++
			if denied {
				spent++
				quota = r
			}
		case denied && !r.Shadow:
			return r
		}
	}
	if spent < quotas {
		return nil
	}
	return quota
}

func (d *rulesDecider) report(r *Report) {
	d.tally.finish()
	d.tally.report(r, func(id uint32) string { return text.Visible(d.clients.Texts[id], maxKey) })
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
	d.reportCandidates(r)
	d.remark(r, d.table.Rules())
	for _, s := range d.sweeps {
		r.addCurve(s.Curve())
	}
	if d.adviser != nil {
		r.Advice = d.adviser.advice(advice.Input{Unbiased: r.Refused == 0})
	}
}

// extras are further settings of an algorithm, shown for rules of other algorithms.
var extras = map[stint.Algorithm]string{
	stint.TokenBucket:   ", burst = requests",
	stint.LeakyBucket:   ", burst 0",
	stint.SlidingWindow: ", blocks 1",
}
