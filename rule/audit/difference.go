package audit

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"stint"
	"stint/internal/limits"
	"stint/rule"
	"stint/rule/denial"
)

// difference is the difference between an old rule and the new rule that replaces it.
type difference struct {
	was, is *rule.Rule
	effects []Effect
	texts   []string
	why     []string // why an effect is Other
	waitMS  *int64   // see Change
}

func (d *difference) add(effect Effect, format string, args ...any) {
	d.effects = append(d.effects, effect)
	d.texts = append(d.texts, fmt.Sprintf(format, args...))
}

// all returns the effects without duplicates, in the order of Effects. It drops Other and Same if
// there are further effects.
func (d *difference) all() []Effect {
	var all []Effect
	for _, e := range Effects {
		if slices.Contains(d.effects, e) {
			all = append(all, e)
		}
	}
	for len(all) > 1 && (all[len(all)-1] == Same || all[len(all)-1] == Other) {
		all = all[:len(all)-1] // the remaining effects say more
	}
	return all
}

// compare finds the differences for descriptors with these entries.
func (d *difference) compare(entries []rule.Entry) {
	d.numbers()
	d.anew(entries)
	d.modes()
	d.failure()
	d.rest()
}

// numbers compares how many requests pass.
func (d *difference) numbers() {
	was, is := effective(d.was), effective(d.is)
	a, b := was.Spec(), is.Spec()
	text := fmt.Sprintf("%s -> %s", limitOf(d.was), limitOf(d.is))
	if limitOf(d.was) == limitOf(d.is) {
		return
	}
	switch {
	case a.Algorithm == stint.Unlimited:
		d.add(Stricter, "%s", text)
	case b.Algorithm == stint.Unlimited:
		d.add(Looser, "%s", text)
	case d.was.Elastic == nil && d.is.Elastic == nil && d.was.Soft == d.is.Soft && limits.Equal(d.was.Stored, d.is.Stored):
		d.add(Same, "%s (the same rate and burst, written differently)", text)
	default:
		rates, once := ratio(rate(&a), rate(&b)), ratio(float64(was.Capacity()), float64(is.Capacity()))
		effect := direction(rates, once)
		if effect == Other && rates == 1 && once == 1 {
			span := longer(&a, &b)
			effect = direction(ratio(admits(&a, span), admits(&b, span)), 1)
		}
		var more []string
		if rates != 1 && rates != 0 && !math.IsInf(rates, 1) {
			more = append(more, fmt.Sprintf("%.3g times the rate", rates))
		}
		if once != 1 && once != 0 && !math.IsInf(once, 1) {
			more = append(more, fmt.Sprintf("%.3g times at once", once))
		}
		if len(more) > 0 {
			text += " (" + strings.Join(more, ", ") + ")"
		}
		d.add(effect, "%s", text)
		d.because(effect, whyNumbers(rates, once))
	}
}

// effective returns the limit that applies at most to a key of a rule.
func effective(r *rule.Rule) *stint.Limit {
	if r.Elastic != nil {
		return r.Elastic.Cap
	}
	return r.Stored
}

// limitOf returns the numbers of a rule as text; the summary of the rule begins with the same text.
func limitOf(r *rule.Rule) string {
	text := limits.Format(r.Limit)
	if r.Soft > 0 {
		text += fmt.Sprintf(" soft %v", r.Soft)
	}
	if r.Elastic != nil {
		text += fmt.Sprintf(" elastic from %v", r.Elastic)
	}
	return text
}

func longer(a, b *stint.Spec) time.Duration {
	_, x := lengths(a)
	_, y := lengths(b)
	return max(x, y)
}

// ratio returns b divided by a.
func ratio(a, b float64) float64 {
	switch {
	case a == b:
		return 1
	case a == 0:
		return math.Inf(1)
	}
	return b / a
}

// direction returns the common effect of two ratios.
func direction(x, y float64) Effect {
	switch {
	case x >= 1 && y >= 1 && (x > 1 || y > 1):
		return Looser
	case x <= 1 && y <= 1 && (x < 1 || y < 1):
		return Stricter
	}
	return Other
}

// anew compares the keys and algorithms. It adds Anew if counts are lost; otherwise it adds how
// long a used-up key waits.
func (d *difference) anew(entries []rule.Entry) {
	if d.was.Limit.Algorithm() == stint.Unlimited || d.is.Limit.Algorithm() == stint.Unlimited {
		return
	}
	most := d.is.Stored.Capacity()
	switch {
	case d.renamed(): // all counts of the domain start at zero; the change of the domain says so
	case string(d.was.AppendKey(nil, entries)) != string(d.is.AppendKey(nil, entries)):
		d.add(Anew, "%s: each has up to %d again, once", d.otherKey(), most)
	case d.was.Limit.Algorithm() != d.is.Limit.Algorithm():
		d.add(Anew, "counted by a different algorithm: each key has up to %d again, once", most)
	default:
		if wait, carried := waitAfter(d.was, d.is); carried {
			ms := int64((wait + time.Millisecond - 1) / time.Millisecond)
			d.texts, d.waitMS = append(d.texts, waitText(wait)), &ms
		}
	}
	if was, is := strings.Join(d.was.ShardBy, ", "), strings.Join(d.is.ShardBy, ", "); was != is {
		d.add(Anew, "shard_by: [%s] -> [%s]: on several servers keys move and start at zero", was, is)
	}
}

// modes compares the settings that decide which requests are denied.
func (d *difference) modes() {
	d.flag("shadow_mode", d.was.Shadow, d.is.Shadow, Looser)
	d.flag("quota_mode", d.was.Quota, d.is.Quota, Looser)
	d.flag("overdraw", d.was.Limit.Spec().Overdraw, d.is.Limit.Spec().Overdraw, Stricter)
	d.flag("penalty", d.was.Penalty != nil, d.is.Penalty != nil, Stricter)
	if was, is := d.was.Penalty, d.is.Penalty; was != nil && is != nil && limits.Format(was) != limits.Format(is) {
		d.other(whyPenalty, "%s -> %s", limits.Format(was), limits.Format(is))
	}
	switch was, is := d.was.Answers, d.is.Answers; {
	case sameAnswers(d.was, d.is):
	case was == nil:
		d.add(Looser, "count: requests -> responses: only those with its statuses are charged")
	case is == nil:
		d.add(Stricter, "count: responses -> requests: all are charged")
	default:
		more, fewer := false, false
		for status := 100; status < 600; status++ {
			more = more || is.Charges(status) && !was.Charges(status)
			fewer = fewer || was.Charges(status) && !is.Charges(status)
		}
		effect := Other
		if more != fewer {
			effect = map[bool]Effect{true: Stricter, false: Looser}[more]
		}
		d.add(effect, "statuses: %v -> %v", was, is)
		d.because(effect, whyStatuses)
	}
}

// flag compares a setting that is true or false; when is the effect of true.
func (d *difference) flag(word string, was, is bool, when Effect) {
	if was == is {
		return
	}
	if !is {
		when = map[Effect]Effect{Looser: Stricter, Stricter: Looser}[when]
	}
	d.add(when, "%s: %t -> %t", word, was, is)
}

// failure compares the answers while the store is away.
func (d *difference) failure() {
	passes := func(r *rule.Rule) float64 { // the part of the limit that passes
		switch r.OnStoreFailure {
		case rule.Allow:
			return math.Inf(1)
		case rule.Local:
			return float64(r.LocalShare) / float64(max(r.Nodes, 1))
		}
		return 0
	}
	says := func(r *rule.Rule) string {
		if r.OnStoreFailure == rule.Local {
			return fmt.Sprintf("local, %v over %d nodes", r.LocalShare, r.Nodes)
		}
		return r.OnStoreFailure.String()
	}
	if was, is := says(d.was), says(d.is); was != is {
		effect := direction(ratio(passes(d.was), passes(d.is)), 1)
		d.because(effect, whyShare)
		d.add(effect, "while the store is away: %s -> %s", was, is)
	}
	if d.was.Coordination != d.is.Coordination {
		d.other(whyNodes, "coordination: %v -> %v", d.was.Coordination, d.is.Coordination)
	}
	if was, is := d.was.IsDurable(), d.is.IsDurable(); was != is {
		d.other(whyDurable, "%s", Durable(is))
	}
	if was, is := keysOf(d.was), keysOf(d.is); was != is {
		d.other(whyMemory, "keys that a node keeps: %s -> %s", was, is)
	}
	if d.was.AskPeers != d.is.AskPeers {
		d.other(whyNodes, "gossip asks the other nodes first: %v -> %v", d.was.AskPeers, d.is.AskPeers)
	}
	d.flag("allowed as unused after the store lost its data", d.was.KeptAfterLoss, d.is.KeptAfterLoss, Looser)
}

// keysOf returns the number of keys of a rule that a node keeps, as text.
func keysOf(r *rule.Rule) string {
	if r.Terms == nil || r.Terms.Keys == 0 {
		return "as many as fit"
	}
	return strconv.Itoa(r.Terms.Keys)
}

// rest compares the answers, and the remaining settings of a rule.
func (d *difference) rest() {
	if was, is := denialOf(d.was), denialOf(d.is); was != is {
		d.other(whyAnswers, "denial: %s -> %s", was, is)
	} else if bodyOf(d.was) != bodyOf(d.is) {
		d.other(whyAnswers, "denial: a different body")
	}
	for _, w := range []struct{ word, was, is, why string }{
		{"excess", d.was.Excess.String(), d.is.Excess.String(), whyAnswers},
		{"headers", fmt.Sprint(d.was.Headers), fmt.Sprint(d.is.Headers), whyAnswers},
		{"replaces", fmt.Sprint(d.was.Replaces), fmt.Sprint(d.is.Replaces), whyReplaces},
		{"detailed_metric", fmt.Sprint(d.was.DetailedMetric), fmt.Sprint(d.is.DetailedMetric), whyMetrics},
		{"metadata", fmt.Sprint(d.was.Metadata), fmt.Sprint(d.is.Metadata), whyAnswers},
	} {
		if w.was != w.is {
			d.other(w.why, "%s: %s -> %s", w.word, w.was, w.is)
		}
	}
}

func denialOf(r *rule.Rule) string {
	if r.Denial == nil {
		return "the default one"
	}
	return r.Denial.String()
}

// bodyOf returns the body of a denial, rendered with example numbers.
func bodyOf(r *rule.Rule) string {
	if r.Denial == nil {
		return ""
	}
	body, err := r.Denial.AppendBody(nil, denial.Numbers{Rule: "rule", Limit: 1, RetryAfter: time.Second, ResetAfter: time.Second})
	if err != nil {
		return err.Error()
	}
	return string(body)
}
