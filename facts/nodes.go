package facts

import (
	"bytes"
	"cmp"
	"compress/flate"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"stint/facts/sketch"
)

const (
	// publishEvery is the time between two summaries of a node, and publishKeep how long others keep
	// one.
	publishEvery = 5 * time.Second
	publishKeep  = 15 * time.Second

	// readEvery is the least time between two reads of the summaries of other nodes.
	readEvery = 2 * time.Second

	// allPublished is about how many keys of each kind a summary has, and mostPublished the most of a rule.
	allPublished, mostPublished, leastPublished = 4096, 400, 20

	// maxReport is the most bytes of a summary of another node.
	maxReport = 64 << 20
)

// report is the summary of one node for others.
type report struct {
	Print string       `json:"print"` // fingerprint of the secret; IDs of others with another one cannot be compared
	At    time.Time    `json:"at"`
	Since time.Time    `json:"since"`
	Node  Node         `json:"node"`
	Rules []reportRule `json:"rules"`
}

// reportRule is a rule in a report.
type reportRule struct {
	Domain string `json:"domain"`
	Name   string `json:"name"`
	Shadow bool   `json:"shadow"`
	Counts
	First     time.Time           `json:"first"`
	Last      time.Time           `json:"last"`
	Since     time.Time           `json:"since"`
	Seen      []byte              `json:"seen,omitempty"` // registers of the keys of both generations
	Largest   float64             `json:"largest"`
	Limit     string              `json:"limit"` // whose peaks these are
	Peaks     measured            `json:"peaks"`
	Top       [sketch.Kinds][]Key `json:"top"`
	Published int                 `json:"published"` // the most keys of a list
	Candidate *Candidate          `json:"candidate,omitempty"`
}

// others are the summaries of other nodes.
type others struct {
	mu      sync.Mutex
	read    time.Time
	reports []report
	failed  bool
}

// What a report has beside the counts of rules.
const (
	onlyCounts = iota
	withPeaks  // and how many keys there are
	withKeys   // and the lists of keys
)

// reportLocked returns the summary of this node.
func (f *Facts) reportLocked(with int) report {
	now := f.now()
	rep := report{Print: f.print, At: now, Since: f.since, Rules: []reportRule{}}
	if f.options.Read != nil {
		rep.Node = f.options.Read()
	}
	rep.Node.Name, rep.Node.At = f.options.Node, now
	rep.Node.Median, rep.Node.P99 = f.latency.Quantiles()
	rules := f.board.Load().all()
	n := min(max(allPublished/max(len(rules), 1), leastPublished), mostPublished)
	for _, r := range rules {
		one := reportRule{
			Domain: r.name.domain, Name: r.name.name, Counts: r.countsLocked(f.counted),
			First: r.first, Last: r.last, Since: r.since, Limit: r.peaks.limit, Published: n, Candidate: r.candidate(),
		}
		if of := r.rule.Load(); of != nil {
			one.Shadow = of.Shadow
		}
		if one.Counts != (Counts{}) && with >= withPeaks {
			one.Seen, one.Largest, one.Peaks = r.seenLocked(), r.largestLocked(now, one.Counts.Allowed+one.Counts.Denied), r.peaks.current()
			one.Peaks.add(&r.peaks.before)
		}
		for kind := range one.Top {
			if with < withKeys {
				break
			}
			for _, k := range r.topLocked(kind, n) {
				one.Top[kind] = append(one.Top[kind], f.showLocked(r, k))
			}
		}
		rep.Rules = append(rep.Rules, one)
	}
	return rep
}

// seenLocked returns the registers of the keys of both generations; nil: there were none.
func (r *ruleFacts) seenLocked() []byte {
	var all sketch.Distinct
	some := false
	for _, d := range []*sketch.Distinct{r.before, r.seen.Load()} {
		if d != nil {
			all.Merge(d)
			some = true
		}
	}
	if !some {
		return nil
	}
	b, _ := all.MarshalBinary() // cannot fail
	return b
}

// publish makes the summary of this node known to the others.
func (f *Facts) publish(ctx context.Context) {
	f.Flush()
	f.mu.Lock()
	rep := f.reportLocked(withKeys)
	f.mu.Unlock()
	data, err := rep.encode()
	if err == nil {
		err = f.options.Exchange.Publish(ctx, f.options.Node, data, publishKeep)
	}
	f.exchanged(ctx, "publish facts for other nodes", err)
}

// exchanged logs the first of several failures to exchange summaries.
func (f *Facts) exchanged(ctx context.Context, doing string, err error) {
	f.others.mu.Lock()
	defer f.others.mu.Unlock()
	if err != nil && !f.others.failed && ctx.Err() == nil {
		f.log.Warn("cannot "+doing+"; will try again", "error", err, "hint", "each node shows its own facts until then")
	}
	f.others.failed = err != nil
}

// encode returns a report as bytes.
func (r *report) encode() ([]byte, error) {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err == nil {
		err = json.NewEncoder(w).Encode(r)
	}
	if err == nil {
		err = w.Close()
	}
	return b.Bytes(), err
}

// decodeReport reads what encode returned.
func decodeReport(data []byte) (rep report, err error) {
	body, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(data)), maxReport+1))
	if err != nil {
		return report{}, err
	}
	if len(body) > maxReport {
		return report{}, errors.New("a summary is too large")
	}
	if err = json.Unmarshal(body, &rep); err != nil {
		return report{}, err
	}
	for i := range rep.Rules {
		var d sketch.Distinct
		if seen := rep.Rules[i].Seen; seen != nil && d.UnmarshalBinary(seen) != nil {
			return report{}, errors.New("a summary has a wrong count of keys")
		}
	}
	return rep, nil
}

// otherReports returns the summaries of other nodes.
func (f *Facts) otherReports(ctx context.Context) []report {
	if f.options.Exchange == nil {
		return nil
	}
	f.others.mu.Lock()
	if now := f.now(); now.Sub(f.others.read) < readEvery {
		defer f.others.mu.Unlock()
		return f.others.reports
	} else {
		f.others.read = now
	}
	f.others.mu.Unlock()
	all, err := f.options.Exchange.Read(ctx)
	f.exchanged(ctx, "read the facts of other nodes", err)
	var reports []report
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name == f.options.Node {
			continue
		}
		if rep, err := decodeReport(all[name]); err == nil {
			reports = append(reports, rep)
		}
	}
	f.others.mu.Lock()
	defer f.others.mu.Unlock()
	f.others.reports = reports
	return reports
}

// Summary returns what all nodes know. Nodes whose summary could not be read are missing.
func (f *Facts) Summary(ctx context.Context) Summary { return f.summary(ctx, withPeaks) }

// Counts returns a Summary without Keys and Peaks of the rules, which costs much less.
func (f *Facts) Counts(ctx context.Context) Summary { return f.summary(ctx, onlyCounts) }

func (f *Facts) summary(ctx context.Context, with int) Summary {
	reports := f.otherReports(ctx)
	f.Flush()
	f.mu.Lock()
	own := f.reportLocked(with)
	f.mu.Unlock()
	return merge(own, reports, with)
}

// merge returns the summary of a node and of others.
func merge(own report, others []report, with int) Summary {
	s := Summary{At: own.At, Since: own.Since, Nodes: []Node{own.Node}, Rules: []Rule{}}
	merged := map[ruleName]*mergedRule{}
	var order []*mergedRule
	for _, rep := range slices.Concat([]report{own}, others) {
		if rep.Since.After(s.Since) {
			s.Since = rep.Since
		}
		if rep.Node.Name != own.Node.Name {
			s.Nodes = append(s.Nodes, rep.Node)
		}
		for i := range rep.Rules {
			one := &rep.Rules[i]
			name := ruleName{one.Domain, one.Name}
			m := merged[name]
			if m == nil {
				m = &mergedRule{Rule: Rule{Domain: one.Domain, Name: one.Name, Shadow: one.Shadow}, limit: one.Limit}
				merged[name] = m
				order = append(order, m)
			}
			if m.count(one); with >= withPeaks {
				m.add(one, rep.Print == own.Print)
			}
		}
	}
	for _, m := range order {
		if with >= withPeaks {
			m.conclude()
		}
		s.Rules = append(s.Rules, m.Rule)
	}
	return s
}

// mergedRule is a rule of several nodes.
type mergedRule struct {
	Rule
	limit    string // of the first node that has the rule
	seen     sketch.Distinct
	peaks    measured
	largest  float64 // sum of shares by requests
	requests float64
}

// count adds the counts of a node.
func (m *mergedRule) count(one *reportRule) {
	m.Counts.add(&one.Counts)
	m.addCandidate(one.Candidate)
	if m.First.IsZero() || !one.First.IsZero() && one.First.Before(m.First) {
		m.First = one.First
	}
	if one.Last.After(m.Last) {
		m.Last = one.Last
	}
	if m.Since.IsZero() || one.Since.Before(m.Since) {
		m.Since = one.Since
	}
}

// add adds keys and peaks of a node. comparable says whether the hashes of keys are of the same secret.
func (m *mergedRule) add(one *reportRule, comparable bool) {
	var seen sketch.Distinct
	if one.Seen != nil && seen.UnmarshalBinary(one.Seen) == nil {
		if comparable {
			m.seen.Merge(&seen)
		} else {
			m.Keys = max(m.Keys, seen.Estimate())
		}
	}
	if one.Limit == m.limit { // a node may still have other numbers
		m.peaks.add(&one.Peaks)
	}
	requests := float64(one.Allowed + one.Denied)
	m.largest += one.Largest * requests
	m.requests += requests
}

// conclude sets what is computed from the sums.
func (m *mergedRule) conclude() {
	m.Keys = max(m.Keys, m.seen.Estimate())
	m.Peaks = m.peaks.shown()
	if m.requests > 0 {
		m.Peaks.Largest = m.largest / m.requests
	}
}

// add adds other counts.
func (c *Counts) add(other *Counts) {
	c.Allowed += other.Allowed
	c.Denied += other.Denied
	c.Over += other.Over
	c.Degraded += other.Degraded
	c.Looks += other.Looks
}

// minus returns the counts since others.
func (c Counts) minus(other Counts) Counts {
	return Counts{
		Allowed: c.Allowed - min(other.Allowed, c.Allowed), Denied: c.Denied - min(other.Denied, c.Denied),
		Over: c.Over - min(other.Over, c.Over), Degraded: c.Degraded - min(other.Degraded, c.Degraded),
		Looks: c.Looks - min(other.Looks, c.Looks),
	}
}

// keysOfNodes returns the n busiest keys of each rule on each node, merged.
func (f *Facts) keysOfNodes(ctx context.Context, of Of, by By, n int) []Key {
	reports := f.otherReports(ctx)
	f.Flush()
	own := f.ownTop(of, by, max(n, mostPublished))
	lists := [][]Key{own}
	full := []bool{false}
	kind := by.kindOf()
	for _, rep := range reports {
		if rep.Print != f.print {
			continue // the same key has another ID there
		}
		var list []Key
		for i := range rep.Rules {
			one := &rep.Rules[i]
			if of.matches(one.Domain, one.Name) {
				list = append(list, one.Top[kind]...)
			}
		}
		lists, full = append(lists, list), append(full, true)
	}
	return mergeKeys(lists, kind, full)
}

type keyName struct{ domain, rule, id string }

// mergeKeys adds up the keys of several nodes. A key that a node does not list may count there as much
// as the last one that it lists of the rule, if full says that it lists no more.
func mergeKeys(lists [][]Key, kind int, full []bool) []Key {
	all := map[keyName]*Key{}
	last := make([]map[ruleName]uint64, len(lists))
	listed := make([]map[keyName]bool, len(lists))
	for i, list := range lists {
		last[i], listed[i] = map[ruleName]uint64{}, map[keyName]bool{}
		for _, k := range list {
			name := ruleName{k.Domain, k.Rule}
			listed[i][keyName{k.Domain, k.Rule, k.ID}] = true
			if n, known := last[i][name]; !known || k.count(kind) < n {
				last[i][name] = k.count(kind)
			}
			sum := all[keyName{k.Domain, k.Rule, k.ID}]
			if sum == nil {
				k.Nodes = slices.Clone(k.Nodes)
				all[keyName{k.Domain, k.Rule, k.ID}] = &k
				continue
			}
			sum.Allowed += k.Allowed
			sum.Denied += k.Denied
			sum.Over += k.Over
			sum.Error += k.Error
			sum.Nodes = append(sum.Nodes, k.Nodes...)
		}
	}
	merged := make([]Key, 0, len(all))
	for name, k := range all {
		for i := range lists {
			if full[i] && !listed[i][name] {
				k.Error += last[i][ruleName{k.Domain, k.Rule}]
			}
		}
		merged = append(merged, *k)
	}
	slices.SortFunc(merged, func(a, b Key) int { return cmp.Compare(a.ID, b.ID) })
	return merged
}
