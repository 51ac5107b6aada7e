package replay

import (
	"context"
	"fmt"
	"strings"
	"time"

	"stint"
	"stint/facts"
	"stint/facts/advice"
	"stint/internal/text"
	"stint/limiter"
	"stint/replay/accesslog"
	"stint/rule"
)

// adviser collects facts about the decisions of a replay, by the times of the lines.
type adviser struct {
	table   *rule.Table
	facts   *facts.Facts // nil before the first line
	now     time.Time
	decided uint64
	asked   int // limits since the last flush
}

// flushAfter is after how many limits the facts take over what decisions left, so that none is
// dropped for want of room.
const flushAfter = 32

// observe adds a decision.
func (a *adviser) observe(at stint.Instant, v *limiter.Verdict) error {
	a.now = at.Time()
	if a.facts == nil {
		var err error
		a.facts, err = facts.New(facts.Options{
			Secret: []byte("replay"), // the same log has the same sample of keys, and the same advice
			Now:    func() time.Time { return a.now },
			Read:   func() facts.Node { return facts.Node{Decided: a.decided} },
		})
		if err != nil {
			return err
		}
		a.facts.Reloaded(a.table, true)
	}
	a.decided++
	a.facts.Decided(v, -1, nil)
	if a.asked += len(v.Asked); a.asked >= flushAfter {
		a.asked = 0
		a.facts.Flush()
	}
	return nil
}

// advice returns the advice. in may have fields that make it fit where the limits come from.
func (a *adviser) advice(in advice.Input) []advice.Advice {
	if a.facts == nil {
		return []advice.Advice{}
	}
	last := a.now
	a.facts.Flush()
	a.now = last.Add(a.longest()) // ends the periods that last at the end of the log
	a.facts.Flush()
	summary := a.facts.Summary(context.Background())
	summary.At = last
	in.Summary, in.Table = &summary, a.table
	return advice.Of(in)
}

// longest returns a time in which the periods of all limits end, an hour at least.
func (a *adviser) longest() time.Duration {
	most := time.Hour
	for _, r := range a.table.Rules() {
		spec := r.Limit.Spec()
		most = max(most, length(&spec))
	}
	return most
}

// limitAdviser decides by a limit, and by the same limit as a rule for the advice.
type limitAdviser struct {
	*limitDecider
	rules   *rulesDecider
	waiting [][2]uint32 // references of lines that are not decided
	free    []uint32
}

// newLimitAdviser returns a decider for a limit whose rules are those of [Limit.RuleText].
func newLimitAdviser(opts *Options) (*limitAdviser, error) {
	ruled := *opts
	ruled.Limit, ruled.Rules, ruled.Algorithms, ruled.Sweep = nil, opts.AdviseBy, []stint.Algorithm{}, false
	rules, err := newRulesDecider(&ruled)
	if err != nil {
		return nil, err
	}
	return &limitAdviser{limitDecider: newLimitDecider(opts), rules: rules}, nil
}

func (d *limitAdviser) needs() accesslog.Parts { return d.limitDecider.needs() | d.rules.needs() }

func (d *limitAdviser) prepare(r *accesslog.Record) (uint32, error) {
	own, err := d.limitDecider.prepare(r)
	if err != nil {
		return 0, err
	}
	ruled, err := d.rules.prepare(r)
	if err != nil {
		return 0, err
	}
	n := len(d.free)
	if n == 0 {
		d.waiting = append(d.waiting, [2]uint32{own, ruled})
		return uint32(len(d.waiting) - 1), nil
	}
	ref := d.free[n-1]
	d.free, d.waiting[ref] = d.free[:n-1], [2]uint32{own, ruled}
	return ref, nil
}

func (d *limitAdviser) decide(at stint.Instant, ref uint32) error {
	both := d.waiting[ref]
	d.free = append(d.free, ref)
	if err := d.rules.decide(at, both[1]); err != nil {
		return err
	}
	return d.limitDecider.decide(at, both[0])
}

func (d *limitAdviser) report(r *Report) {
	d.limitDecider.report(r)
	_, http, _ := strings.Cut(d.limit.RuleText(), "http:\n")
	r.Advice = d.rules.adviser.advice(advice.Input{
		Unbiased: r.Refused == 0, HTTP: "http:\n" + http, Command: d.limit.command,
	})
}

// command returns a command that replays the limit with other numbers.
func (l *Limit) command(spec stint.Spec) string {
	_, by, _ := strings.Cut(l.Text, " by ")
	if by != "" {
		by = " by " + by
	}
	burst := ""
	if spec.Burst > 0 {
		burst = fmt.Sprintf(" --burst %d", spec.Burst)
	}
	return fmt.Sprintf("stint replay --limit \"%d/%s%s\" --algorithm %v%s access.log", spec.Requests, text.FormatDuration(spec.Per), by, spec.Algorithm, burst)
}

// fieldActions are the actions of rule files that read the fields, with the keys of their entries; ""
// for a field that no action reads from a log.
var fieldActions = [...]struct{ key, action string }{
	ByIP:     {"remote_address", "{remote_address: {}}"},
	ByPath:   {"path", "{path: {}}"},
	ByMethod: {"method", "{method: {}}"},
	ByUser:   {},
	ByAgent:  {"user_agent", "{request_headers: {header_name: user-agent, descriptor_key: user_agent}}"},
}

// RuleText returns a rule file with the limit as its only rule; "" for a limit that counts by the
// authenticated user, which rules do not find in a log. The service counts by the file as the limit
// counts by the log, except that it reads paths as servers do.
func (l *Limit) RuleText() string {
	by := l.By
	var b strings.Builder
	b.WriteString("domain: log\n")
	indent, actions := "", []string{}
	for _, field := range by {
		f := fieldActions[field]
		if f.key == "" {
			return ""
		}
		fmt.Fprintf(&b, "%sdescriptors:\n%s  - key: %s\n", indent, indent, f.key)
		indent += "    "
		actions = append(actions, f.action)
	}
	if len(by) == 0 {
		b.WriteString("descriptors:\n  - key: all\n    value: requests\n")
		indent, actions = "    ", []string{"{generic_key: {descriptor_key: all, descriptor_value: requests}}"}
	}
	spec := l.Limit.Spec()
	fmt.Fprintf(&b, "%srate_limit: {requests: %d, per: %s, algorithm: %v, name: %q", indent, spec.Requests, text.FormatDuration(spec.Per), spec.Algorithm, l.Text)
	if spec.Burst > 0 {
		fmt.Fprintf(&b, ", burst: %d", spec.Burst)
	}
	fmt.Fprintf(&b, "}\nhttp:\n  rate_limits:\n    - actions: [%s]\n", strings.Join(actions, ", "))
	return b.String()
}
