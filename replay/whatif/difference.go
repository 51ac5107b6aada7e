package whatif

import (
	"cmp"
	"slices"
	"strings"

	"stint/rule"
)

// Denials collects which keys a set of rules denies. It is used by one goroutine.
type Denials struct {
	rules []ruleDenials // by rule.Index
}

// ruleDenials are the takes of one rule.
type ruleDenials struct {
	rule          *rule.Rule
	asked, denied int64
	keys          map[string]*keyDenials
	deniedKeys    int64
}

// keyDenials are the takes of one key.
type keyDenials struct {
	name   string // of a denied key, for people
	denied int64
}

// NewDenials returns Denials of the rules of a table.
func NewDenials(table *rule.Table) *Denials {
	d := new(Denials)
	for _, r := range table.Rules() {
		d.rules = append(d.rules, ruleDenials{rule: r, keys: map[string]*keyDenials{}})
	}
	return d
}

// Take adds the decision about a take with a cost. entries are those of the descriptor. Take keeps
// neither them nor the key.
func (d *Denials) Take(r *rule.Rule, key string, entries []rule.Entry, allowed bool) {
	of := &d.rules[r.Index]
	of.asked++
	k := of.keys[key]
	if k == nil {
		k = new(keyDenials)
		of.keys[strings.Clone(key)] = k
	}
	if allowed {
		return
	}
	of.denied++
	if k.denied++; k.denied == 1 {
		of.deniedKeys++
		k.name = name(r, entries)
	}
}

// name returns the values of the entries that have a bucket for each value.
func name(r *rule.Rule, entries []rule.Entry) string {
	var values []string
	for i, l := range r.Path {
		if l.Varies() && i < len(entries) {
			values = append(values, entries[i].Value)
		}
	}
	return strings.Clone(strings.Join(values, "+"))
}

// Change is what a rule denies before and after a change of rules. Rules are the same if domain and
// name are the same.
type Change struct {
	Domain string `json:"domain"`
	Rule   string `json:"rule"`
	What   string `json:"what"` // added, removed, changed or same
	Shadow bool   `json:"shadow"`

	// Before and After are the rules in words; "" for an added or removed one.
	Before string `json:"before"`
	After  string `json:"after"`

	Keys         int64 `json:"keys"`          // keys that asked the rule, before or after
	DeniedBefore int64 `json:"denied_before"` // takes
	DeniedAfter  int64 `json:"denied_after"`
	KeysBefore   int64 `json:"denied_keys_before"`
	KeysAfter    int64 `json:"denied_keys_after"`

	// NewlyDenied are the keys that are denied after the change only, Freed those that are denied
	// before it only.
	NewlyDenied int64 `json:"newly_denied"`
	Freed       int64 `json:"freed"`

	// Examples are the newly denied keys with the most denied takes.
	Examples []Example `json:"examples"`
}

// Example is a newly denied key.
type Example struct {
	Key    string `json:"key"`
	Denied int64  `json:"denied"`
}

// maxExamples is the number of examples of a change.
const maxExamples = 5

// Differences returns all rules of two sets whose meaning or denials differ: first those of the new
// rules, in their order, then those that are removed.
func Differences(before, after *Denials) []Change {
	type id struct{ domain, name string }
	old := map[id]*ruleDenials{}
	for i := range before.rules {
		r := &before.rules[i]
		old[id{r.rule.Domain, r.rule.Name}] = r
	}
	changes := []Change{}
	for i := range after.rules {
		r := &after.rules[i]
		is := id{r.rule.Domain, r.rule.Name}
		if c := compare(old[is], r); c.differs() {
			changes = append(changes, c)
		}
		delete(old, is)
	}
	for i := range before.rules {
		r := &before.rules[i]
		if old[id{r.rule.Domain, r.rule.Name}] == r {
			changes = append(changes, compare(r, nil))
		}
	}
	return changes
}

func (c *Change) differs() bool {
	return c.What != "same" || c.DeniedBefore != c.DeniedAfter || c.NewlyDenied > 0 || c.Freed > 0
}

// compare compares what a rule denies before and after; either may be nil.
func compare(before, after *ruleDenials) Change {
	c := Change{What: "changed", Examples: []Example{}}
	var keysBefore, keysAfter map[string]*keyDenials
	if after != nil {
		c.is(after.rule)
		c.After, c.DeniedAfter, c.KeysAfter, keysAfter = after.rule.Summary(), after.denied, after.deniedKeys, after.keys
	} else {
		c.What = "removed"
	}
	if before != nil {
		c.Before, c.DeniedBefore, c.KeysBefore, keysBefore = before.rule.Summary(), before.denied, before.deniedKeys, before.keys
	} else {
		c.What = "added"
	}
	switch {
	case after == nil:
		c.is(before.rule)
	case before != nil && c.Before == c.After && slices.Equal(before.rule.Path, after.rule.Path):
		c.What = "same"
	}
	c.Keys = int64(len(keysAfter))
	for key, was := range keysBefore {
		now := keysAfter[key]
		if now == nil {
			c.Keys++
		}
		if was.denied > 0 && (now == nil || now.denied == 0) {
			c.Freed++
		}
	}
	for key, now := range keysAfter {
		if was := keysBefore[key]; now.denied > 0 && (was == nil || was.denied == 0) {
			c.NewlyDenied++
			c.example(Example{now.name, now.denied})
		}
	}
	return c
}

func (c *Change) is(r *rule.Rule) { c.Domain, c.Rule, c.Shadow = r.Domain, r.Name, r.Shadow }

// example keeps the example if it is one of the largest.
func (c *Change) example(e Example) {
	order := func(a, b Example) int { return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Key, b.Key)) }
	place, _ := slices.BinarySearchFunc(c.Examples, e, order)
	if place < maxExamples {
		c.Examples = slices.Insert(c.Examples, place, e)
		c.Examples = c.Examples[:min(len(c.Examples), maxExamples)]
	}
}
