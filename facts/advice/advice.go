// Package advice tells from facts which rules have wrong numbers, the wrong algorithm or the wrong
// key, in one sentence for each, with the lines of YAML that would mend it. Its functions are pure.
// It says nothing about rules that work.
package advice

import (
	"math"
	"time"

	"stint"
	"stint/facts"
	"stint/rule"
)

// Cause is what is wrong with a rule.
type Cause string

// The causes, in the order in which they are looked for. A rule gets the first that holds.
const (
	// WrongKey: nearly all requests are of one key, or nearly every request is of a new one.
	WrongKey Cause = "wrong_key"
	// EdgeBursts: most denials fall at the edges of a fixed window.
	EdgeBursts Cause = "edge_bursts"
	// BurstTooSmall: most denials are of short bursts of keys that use little of the limit.
	BurstTooSmall Cause = "burst_too_small"
	// TooTight: too many keys are denied, and these want hardly more than the limit.
	TooTight Cause = "too_tight"
	// TooLoose: the limit is far above what any key uses.
	TooLoose Cause = "too_loose"
	// NeverMatched: no request matches the rule.
	NeverMatched Cause = "never_matched"
	// ShadowReady: a rule in shadow mode would deny hardly anybody.
	ShadowReady Cause = "shadow_ready"
)

// The facts that advice needs, and from where on it is given.
const (
	leastKeys      = 50
	leastRequests  = 1000
	leastTime      = time.Hour
	leastLoose     = 7 * 24 * time.Hour // for TooLoose
	leastUnmatched = 24 * time.Hour     // for NeverMatched

	oneKey       = 0.9  // WrongKey: share of the requests that are of one key
	newKeys      = 0.9  // WrongKey: share of the periods that are the first of their key
	half         = 0.5  // EdgeBursts, BurstTooSmall and TooTight: share of the denials
	deniedKeys   = 0.01 // TooTight: share of the keys; ShadowReady: at most so many
	littleExcess = 1.5  // TooTight: what the denied keys ask for, as a share of the limit
	loose        = 3    // TooLoose: the limit as a multiple of the use

	// binError is by how much the true value may be above a quantile of facts.
	binError = 1.025
)

// Advice is what to change about one rule.
type Advice struct {
	Domain string `json:"domain"`
	Rule   string `json:"rule"`
	File   string `json:"file"` // of the limit; "" if it is not from a file
	Line   int    `json:"line"`
	Cause  Cause  `json:"cause"`

	// Text is one sentence with the cause and a number. Number is that number: a share from 0 to 1 for
	// WrongKey, EdgeBursts, BurstTooSmall, TooTight (of the keys) and ShadowReady (of the requests), a
	// multiple for TooLoose, days for NeverMatched.
	Text   string  `json:"text"`
	Number float64 `json:"number"`

	// AtLeast means that the true demand may be larger: denied clients ask less.
	AtLeast bool `json:"at_least"`

	// YAML are the lines of a rule file that would mend it: the rule with its new numbers and
	// algorithm, or its new key. Other words of the rule stay as they are.
	YAML string `json:"yaml"`

	// Candidate are the lines that try the new numbers beside the limit in force, which denies
	// nobody; "" where nothing can be tried so.
	Candidate string `json:"candidate"`

	// Command is a command that shows the effect on an access log; "" for a rule whose domain does not
	// describe HTTP requests.
	Command string `json:"command"`
}

// Input is what advice is made from.
type Input struct {
	// Summary has the facts. Its At is the present time.
	Summary *facts.Summary

	// Table has the rules in force. Rules that it lacks, such as those per API, get no advice; neither
	// do rules whose limits come from plans, as each plan needs its own.
	Table *rule.Table

	// History returns the history of a rule in steps of ten minutes. Nil: only the summary counts.
	History func(of facts.Of) facts.History

	// Unbiased means that denials changed nothing about the requests, as in a log of traffic without
	// limits.
	Unbiased bool

	// Command is set if the only rule stands for a limit that is in no rule file. It returns the command
	// that replays other numbers of it. HTTP are the lines of the http section of that rule.
	Command func(spec stint.Spec) string
	HTTP    string
}

// Of returns advice in the order of the rules of the summary; at most one for each rule.
func Of(in Input) []Advice {
	all := []Advice{}
	for i := range in.Summary.Rules {
		f := &in.Summary.Rules[i]
		r := find(in.Table, f)
		if r == nil || r.Plan != nil || r.Limit.Algorithm() == stint.Unlimited || r.Limit.Spec().Requests == 0 {
			continue
		}
		s := &study{in: &in, facts: f, rule: r, spec: r.Limit.Spec()}
		if a := s.first(); a != nil {
			a.Domain, a.Rule = r.Domain, r.Name
			if in.Command == nil {
				a.File, a.Line = r.File, r.Line
			}
			all = append(all, *a)
		}
	}
	return all
}

func find(table *rule.Table, f *facts.Rule) *rule.Rule {
	for _, r := range table.Rules() {
		if r.Domain == f.Domain && r.Name == f.Name {
			return r
		}
	}
	return nil
}

// study is the examination of one rule.
type study struct {
	in    *Input
	facts *facts.Rule
	rule  *rule.Rule
	spec  stint.Spec
}

// first returns the first cause that holds; nil if none does.
func (s *study) first() *Advice {
	if s.enough() {
		for _, check := range []func() *Advice{s.wrongKey, s.edgeBursts, s.burstTooSmall, s.tooTight, s.tooLoose} {
			if a := check(); a != nil {
				return a
			}
		}
	}
	if a := s.neverMatched(); a != nil {
		return a
	}
	if s.enough() {
		return s.shadowReady()
	}
	return nil
}

// enough reports whether there are facts enough for advice about numbers.
func (s *study) enough() bool {
	f := s.facts
	nodes := uint64(max(len(s.in.Summary.Nodes), 1)) // each may have the same keys in its sample
	return max(f.Keys, f.Peaks.Sampled/nodes) >= leastKeys && s.requests() >= leastRequests &&
		f.Last.Sub(f.First) >= leastTime && s.measured() >= leastTime
}

// measured returns for how long the peaks were measured.
func (s *study) measured() time.Duration {
	if s.facts.Peaks.Since.IsZero() {
		return 0
	}
	return s.in.Summary.At.Sub(s.facts.Peaks.Since)
}

// requests returns how many requests the rule decided.
func (s *study) requests() uint64 { return s.facts.Allowed + s.facts.Denied }

// denials returns how many denials of sampled keys there were.
func (s *study) denials() float64 {
	n := uint64(0)
	for _, d := range s.facts.Peaks.Denials {
		n += d
	}
	return float64(n)
}

// biased reports whether denials may have reduced the requests.
func (s *study) biased() bool {
	return !s.in.Unbiased && !s.rule.Shadow && s.facts.Denied > 0
}

// atLeast returns "at least " where the demand may be larger than what was seen.
func (s *study) atLeast() string {
	if s.biased() {
		return "at least "
	}
	return ""
}

// deniedKeys returns the share of the sampled keys that were denied.
func (s *study) deniedKeys() float64 {
	return float64(s.facts.Peaks.DeniedKeys) / float64(max(s.facts.Peaks.Sampled, s.facts.Peaks.DeniedKeys, 1))
}

func (s *study) wrongKey() *Advice {
	p := &s.facts.Peaks
	if p.Largest > oneKey {
		a := s.advice(WrongKey, p.Largest, "counts by the wrong key: %s of its requests are of one key, so that one bucket decides for nearly everybody", share(p.Largest))
		s.keyed(a, s.narrower())
		return a
	}
	// A key that asks once has a single period, in which it uses one unit.
	unit := p.P99 * float64(s.rule.Limit.Capacity())
	fresh := float64(p.FirstPeriods) / float64(max(p.Periods, 1))
	if p.Sampled >= leastKeys && fresh > newKeys && unit < 1.5 && s.rule.Limit.Capacity() > 1 {
		a := s.advice(WrongKey, fresh, "counts by the wrong key: %s of its buckets are of a key that never came before, and ask for one unit, so that hardly any request meets the limit", share(fresh))
		s.keyed(a, s.wider())
		return a
	}
	return nil
}

func (s *study) edgeBursts() *Advice {
	d := s.facts.Peaks.Denials
	edges := float64(d[0]+d[9]) / max(s.denials(), 1)
	if s.spec.Algorithm != stint.FixedWindow || s.spec.Calendar != stint.NoPeriod || s.denials() < leastDenials || edges <= half {
		return nil
	}
	spec := bucket(&s.spec, 0)
	spec.Burst = min(max(s.scaled(spec.Requests, s.need()), spec.Requests), 2*spec.Requests)
	a := s.advice(EdgeBursts, edges, "denies at the edges of its window: %s%s of its denials fall in the first or last tenth of %s, so that a bucket which refills steadily fits better",
		s.atLeast(), share(edges), period(&s.spec))
	s.numbers(a, spec)
	return a
}

// leastDenials is the number of denials from which on their distribution means something.
const leastDenials = 20

func (s *study) burstTooSmall() *Advice {
	p := &s.facts.Peaks
	bursts := float64(p.Bursts) / max(s.denials(), 1)
	if s.denials() < leastDenials || bursts <= half || !s.bursty() {
		return nil
	}
	spec := plain(&s.spec)
	most := max(10, s.perMinute()/float64(s.rule.Limit.Capacity())) // few abusers must not decide
	capacity := s.scaled(uint32(min(s.rule.Limit.Capacity(), math.MaxUint32)), min(s.need(), most))
	if spec.Algorithm == stint.LeakyBucket {
		spec.Burst = capacity - 1
	} else {
		spec = bucket(&s.spec, capacity)
	}
	a := s.advice(BurstTooSmall, bursts, "has too small a burst: %s%s of its denials are within a second of the start of a burst, by keys that used less than half of the rate in the minute before",
		s.atLeast(), share(bursts))
	s.numbers(a, spec)
	return a
}

// bursty reports whether the limit is one over short times, which a larger burst does not undermine.
func (s *study) bursty() bool {
	return s.spec.Calendar == stint.NoPeriod && s.rule.Limit.Capacity() > 0 &&
		float64(s.rule.Limit.Capacity()) <= s.perMinute()
}

// perMinute returns how many units the limit admits in a minute.
func (s *study) perMinute() float64 { return float64(s.spec.Requests) / s.spec.Per.Minutes() }

func (s *study) tooTight() *Advice {
	p := &s.facts.Peaks
	denied, again := s.deniedKeys(), float64(p.Passed)/max(s.denials(), 1)
	if denied <= deniedKeys || s.denials() < leastDenials {
		return nil
	}
	why := ""
	switch {
	case p.Excess < littleExcess:
		why = "half of these ask for " + s.atLeast() + times(p.Excess) + " the limit"
	case again > half:
		why = share(again) + " of the denied requests pass when they are tried again within " + period(&s.spec)
	default:
		return nil
	}
	a := s.advice(TooTight, denied, "is too tight: it denies %s%s of its keys, and %s", s.atLeast(), share(denied), why)
	s.numbers(a, s.multiplied(max(s.need(), p.Excess)))
	return a
}

func (s *study) tooLoose() *Advice {
	p := &s.facts.Peaks
	if s.measured() < leastLoose || p.P999 <= 0 || p.P999*loose >= 1 || s.deniedRecently() {
		return nil
	}
	spec := s.multiplied(2 * p.P999)
	if spec.Requests >= s.spec.Requests {
		return nil
	}
	a := s.advice(TooLoose, 1/p.P999, "is too loose: for %.0f days its limit was %s what 99.9 %% of its keys used at most, and it denied nothing",
		math.Floor(s.measured().Hours()/24), times(1/p.P999))
	s.numbers(a, spec)
	return a
}

// deniedRecently reports whether the rule denied a request in the last seven days.
func (s *study) deniedRecently() bool {
	if s.facts.Peaks.DeniedKeys > 0 || s.denials() > 0 {
		return true
	}
	if s.in.History == nil {
		return s.facts.Denied > 0
	}
	from := s.in.Summary.At.Add(-leastLoose)
	for _, point := range s.in.History(facts.Of{Domain: s.facts.Domain, Rule: s.facts.Name}).Points {
		if point.At.After(from) && point.Denied > 0 {
			return true
		}
	}
	return false
}

func (s *study) neverMatched() *Advice {
	at, decided := s.in.Summary.At, uint64(0)
	for i := range s.in.Summary.Nodes {
		decided += s.in.Summary.Nodes[i].Decided
	}
	since := s.in.Summary.Since
	for _, later := range []time.Time{s.facts.Since, s.facts.Last} {
		if later.After(since) {
			since = later
		}
	}
	if since.IsZero() || at.Sub(since) < leastUnmatched || decided < leastRequests {
		return nil
	}
	days := math.Floor(at.Sub(since).Hours() / 24)
	a := s.advice(NeverMatched, days, "matched no request for %s, while others were decided", count(days, "day"))
	a.YAML = commented(s.place(s.rule.Path, plain(&s.spec), nil))
	return a
}

func (s *study) shadowReady() *Advice {
	if !s.rule.Shadow || s.deniedKeys() > deniedKeys {
		return nil
	}
	denied := float64(s.facts.Denied) / float64(s.requests())
	a := s.advice(ShadowReady, denied, "can leave shadow mode: in %s it would have denied %s of its requests, of %s of its keys",
		hours(s.facts.Last.Sub(s.facts.First)), share(denied), share(s.deniedKeys()))
	a.YAML = s.place(s.rule.Path, plain(&s.spec), nil)
	return a
}

// need returns what 99 % of the keys need at most, as a share of the limit.
func (s *study) need() float64 {
	p := &s.facts.Peaks
	return max(p.KeyP99, p.Excess, 1) * binError
}

// scaled multiplies a number of units, rounded up to two significant digits.
func (s *study) scaled(n uint32, by float64) uint32 {
	f := math.Ceil(float64(n)*by - 1e-9)
	for unit := 1.0; ; unit *= 10 {
		if f <= 100*unit {
			return uint32(min(math.Ceil(f/unit)*unit, math.MaxUint32))
		}
	}
}

// multiplied returns the limit with its requests and burst multiplied.
func (s *study) multiplied(by float64) stint.Spec {
	spec := plain(&s.spec)
	switch {
	case spec.Algorithm == stint.LeakyBucket:
		// What keys ask for at once needs a longer queue. At a larger rate they get it sooner, but not at once: three
		// times the rate is enough for whoever passes at the second try.
		spec.Burst = max(1, s.scaled(spec.Burst+1, by)) - 1
		by = min(by, mostRate)
	case spec.Burst > 0:
		spec.Burst = max(1, s.scaled(spec.Burst, by))
	}
	spec.Requests = max(1, s.scaled(spec.Requests, by))
	return spec
}

// mostRate is by how much the rate of a leaky bucket is multiplied at most.
const mostRate = 3

// bucket returns a token bucket with the rate of a limit, without the words of other algorithms.
func bucket(spec *stint.Spec, burst uint32) stint.Spec {
	b := plain(spec)
	b.Algorithm, b.Burst = stint.TokenBucket, burst
	b.Blocks, b.MinInterval, b.FromFirst, b.CountDenied = 0, 0, false, false
	return b
}

// plain returns what a rule file writes of a limit.
func plain(spec *stint.Spec) stint.Spec {
	p := *spec
	p.Reserve, p.CarryDebt, p.StartUsedUp, p.RoundRate = false, false, false, true
	return p
}
