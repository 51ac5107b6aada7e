package facts

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"stint/facts/sketch"
	"stint/rule"
)

const (
	// allKept is about how many keys the lists of one generation have, those of all rules together.
	// A key takes about 150 bytes.
	allKept = 64 << 10

	// mostKept and leastKept are the most and the fewest keys of the list of one rule by denials.
	mostKept, leastKept = 16 << 10, 8
)

// keyLists are the busiest keys of a rule in one generation, by the kind of the count.
type keyLists struct {
	by [sketch.Kinds]*sketch.Top // nil: no key has such a count
}

// add adds the counts of a note. kept is the most keys of the list by denials.
func (l *keyLists) add(k *keyNote, kept int) {
	counts, variance := k.scaled()
	for kind := range l.by {
		if l.by[kind] == nil {
			if counts[kind] == 0 {
				continue
			}
			l.by[kind] = sketch.NewTop(max(kept>>(2*min(kind, 1)), leastKept/2), kind)
		}
		l.by[kind].Add(k.hash, k.key[:k.keyLen], &counts, variance[kind])
	}
}

// scaled returns the counts of a note, which may be samples, and their variances.
func (k *keyNote) scaled() (counts sketch.Counts, variance [sketch.Kinds]float64) {
	times := 1.0
	if k.scale > 0 {
		times = float64(k.scale) / float64(k.weight)
	}
	for kind, n := range k.counts {
		count := float64(n) * times
		counts[kind] = uint64(count + 0.5)
		variance[kind] = float64(k.variance[kind])*times + count*count*(1-1/times)
	}
	return counts, variance
}

// takeOverLocked takes over the notes of all shards.
func (f *Facts) takeOverLocked(now time.Time) {
	rules := f.board.Load().all()
	kept := min(max(allKept/max(len(rules), 1), leastKept), mostKept)
	tracked := min(max(allTracked/max(len(rules), 1), 16), mostTracked)
	events := f.events
	for i := range f.shards {
		n := f.shards[i].swap()
		for j := range n.table {
			if k := &n.table[j]; k.rule != nil || k.denial.refusal != "" {
				f.takeKeyLocked(k, kept, now)
			}
		}
		for j := range n.rare {
			f.takeKeyLocked(&n.rare[j], kept, now)
		}
		events = append(events, n.events...)
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	for i := range events {
		p := &events[i].rule.peaks
		if p.now.Since.IsZero() {
			p.now.Since = now
		}
		p.thin.Notes++
		p.observe(&events[i], tracked)
	}
	clear(events)
	f.events = events[:0]
	f.adjustLocked(rules, now)
}

// adjustLocked notes when rules were asked, and changes their samples.
func (f *Facts) adjustLocked(rules []*ruleFacts, now time.Time) {
	active := 1
	for _, r := range rules {
		c := r.countsLocked(f.counted)
		if asked := c.Allowed + c.Denied + c.Looks; asked != r.asked {
			r.asked, r.last = asked, now
			if r.first.IsZero() {
				r.first = now
			}
			active++
		}
	}
	for _, r := range rules {
		r.peaks.adjust(max(detailNotes/4/active, 16))
		r.rates[denied].Adjust(max(rareNotes/2/active, 16))
		r.rates[allowed].Adjust(max(rareNotes/4/active, 16))
		r.sample.Set(r.rates[denied].Bits, r.rates[allowed].Bits, r.peaks.level, r.peaks.thin.Bits)
	}
}

// takeKeyLocked adds the counts of a note to the lists of its rule, and its denials to the log.
func (f *Facts) takeKeyLocked(k *keyNote, kept int, now time.Time) {
	if k.rule != nil {
		k.rule.keys[0].add(k, kept)
		k.rule.rates[denied].Notes += int(k.notes[denied])
		k.rule.rates[allowed].Notes += int(k.notes[allowed])
	}
	if k.counts[denied] > 0 && k.denial.denied {
		f.noteDenialLocked(k, now)
	}
}

// merged are the lists of a rule by one kind from both generations. Keys are by their hash.
func (r *ruleFacts) merged(kind int) map[uint64]*sketch.Key {
	all := map[uint64]*sketch.Key{}
	for g, lists := range r.keys {
		top := lists.by[kind]
		if top == nil {
			continue
		}
		other := r.keys[1-g].by[kind]
		for _, k := range top.List(top.Len()) {
			sum := all[k.Hash]
			if sum == nil {
				copied := *k
				sum = &copied
				sum.Error += missing(other, k.Hash)
				all[k.Hash] = sum
				continue
			}
			for i := range sum.Counts {
				sum.Counts[i] += k.Counts[i]
			}
			sum.Error += k.Error
			sum.Variance += k.Variance
		}
	}
	return all
}

// missing returns the most that a key may count in a list which does not keep it.
func missing(top *sketch.Top, hash uint64) uint64 {
	if top == nil {
		return 0
	}
	if _, kept := top.Get(hash); kept {
		return 0
	}
	return top.Smallest()
}

// topLocked returns the busiest keys of a rule by a kind, the busiest first.
func (r *ruleFacts) topLocked(kind, n int) []*sketch.Key {
	if n == 0 {
		return nil
	}
	list := slices.Collect(maps.Values(r.merged(kind)))
	slices.SortFunc(list, func(a, b *sketch.Key) int {
		return cmp.Or(cmp.Compare(b.Counts[kind], a.Counts[kind]), cmp.Compare(a.Hash, b.Hash))
	})
	list = list[:min(n, len(list))]
	for _, k := range list {
		for other := range k.Counts {
			if other != kind {
				k.Counts[other] = max(k.Counts[other], r.leastLocked(other, k.Hash))
			}
		}
	}
	return list
}

// leastLocked returns what a key counts at least by a kind, from the lists of that kind.
func (r *ruleFacts) leastLocked(kind int, hash uint64) (least uint64) {
	for _, lists := range r.keys {
		if top := lists.by[kind]; top != nil {
			if k, kept := top.Get(hash); kept {
				least += k.Counts[kind] - k.Error
			}
		}
	}
	return least
}

// largestFor is how long the share of the busiest key is shown before it is computed again: a page asks
// each second, and all keys of a rule must be sorted for it. Twice as many requests end it too.
const largestFor = 10 * time.Second

// largestLocked returns the share of the requests of a rule that its busiest key has, as of at most
// largestFor ago. requests are those of the rule so far.
func (r *ruleFacts) largestLocked(now time.Time, requests uint64) float64 {
	if age := now.Sub(r.largestAt); age <= 0 || age >= largestFor || requests >= 2*r.largestOf || requests < r.largestOf {
		r.largest, r.largestAt, r.largestOf = r.busiestLocked(), now, requests
	}
	return r.largest
}

// busiestLocked computes the share of the requests of a rule that its busiest key has.
func (r *ruleFacts) busiestLocked() float64 {
	most := map[uint64]float64{}
	total := 0.0
	for _, kind := range []int{denied, allowed} {
		for _, lists := range r.keys {
			if lists.by[kind] != nil {
				total += float64(lists.by[kind].Total())
			}
		}
		for _, k := range r.topLocked(kind, 32) {
			// The count of the other kind may be too small in this list, and whole in the other.
			most[k.Hash] += float64(k.Counts[kind])
		}
	}
	largest := 0.0
	for _, n := range most {
		largest = max(largest, n)
	}
	if total == 0 {
		return 0
	}
	return min(largest/total, 1)
}

// kindOf returns the kind of a count.
func (b By) kindOf() int {
	return map[By]int{ByDenied: denied, ByAllowed: allowed, ByOver: over}[b]
}

// showLocked returns a key as it is shown.
func (f *Facts) showLocked(r *ruleFacts, k *sketch.Key) Key {
	shown := Key{
		Domain: r.name.domain, Rule: r.name.name, ID: f.id(k.Bytes), Entries: []Entry{},
		Allowed: k.Counts[allowed], Denied: k.Counts[denied], Over: k.Counts[over],
		Error: k.Error + k.Spread(), Nodes: []string{f.options.Node},
	}
	if of := r.rule.Load(); of != nil {
		shown.Entries = entriesOf(of, k.Bytes)
	}
	return shown
}

// entriesOf returns the entries of a key, with the values that a rule shows.
func entriesOf(r *rule.Rule, key []byte) []Entry {
	entries := []Entry{}
	for _, e := range r.Shown(key) {
		entries = append(entries, Entry{e.Key, e.Value})
	}
	return entries
}

// Top returns the n busiest keys of a rule on all nodes, sorted by a count.
func (f *Facts) Top(ctx context.Context, of Of, by By, n int) []Key {
	all := f.keysOfNodes(ctx, of, by, n)
	kind := by.kindOf()
	slices.SortFunc(all, func(a, b Key) int {
		return cmp.Or(cmp.Compare(b.count(kind), a.count(kind)), cmp.Compare(a.ID, b.ID))
	})
	return all[:min(n, len(all))]
}

// count returns a count of a key.
func (k *Key) count(kind int) uint64 {
	return [sketch.Kinds]uint64{denied: k.Denied, allowed: k.Allowed, over: k.Over}[kind]
}

// ownTop returns the n busiest keys of rules on this node.
func (f *Facts) ownTop(of Of, by By, n int) []Key {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []Key
	for _, r := range f.board.Load().find(of) {
		for _, k := range r.topLocked(by.kindOf(), n) {
			all = append(all, f.showLocked(r, k))
		}
	}
	return all
}

// Find returns what is known of a key with this ID, in all rules.
func (f *Facts) Find(ctx context.Context, id string) []Key {
	var found []Key
	known := map[ruleName]bool{}
	for _, by := range []By{ByDenied, ByAllowed} {
		for _, k := range f.keysOfNodes(ctx, Of{}, by, mostKept) {
			if name := (ruleName{k.Domain, k.Rule}); k.ID == id && !known[name] {
				known[name] = true
				found = append(found, k)
			}
		}
	}
	return found
}
