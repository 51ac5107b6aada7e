package rule

import (
	"strings"
	"sync"

	"stint"
)

// maxVariants is the most copies of rules that Variants keeps. Subjects with the same numbers share one.
const maxVariants = 10_000

// Variants keeps the copies of rules with other numbers. Each is made once, until the rules or the
// numbers change. The zero Variants is empty. It is safe for concurrent use.
type Variants struct {
	mu    sync.RWMutex
	rules map[variantKey]*Rule // the rule itself where the numbers do not fit
}

// variantKey identifies a copy. A rule of the catalog has no pointer that lasts; its fields identify
// it.
type variantKey struct {
	numbers       Numbers
	rule          *Rule
	domain, name  string
	limit, stored *stint.Limit
	shadow        bool
	failure       Failure
}

func variantOf(r *Rule, n Numbers) variantKey {
	if r.Index >= 0 {
		return variantKey{numbers: n, rule: r}
	}
	return variantKey{numbers: n, domain: r.Domain, name: r.Name, limit: r.Limit, stored: r.Stored, shadow: r.Shadow, failure: r.OnStoreFailure}
}

// With returns a rule with other numbers. If the numbers do not fit it calls misfit, once, and returns
// the rule itself.
func (v *Variants) With(r *Rule, n Numbers, misfit func(*Rule, error)) *Rule {
	key := variantOf(r, n)
	v.mu.RLock()
	made := v.rules[key]
	v.mu.RUnlock()
	if made != nil {
		return made
	}
	if r.Index < 0 { // the caller uses its memory again
		own := *r
		key.domain, key.name = strings.Clone(r.Domain), strings.Clone(r.Name)
		own.Domain, own.Name, own.Given = key.domain, key.name, key.name
		r = &own
	}
	made, err := r.With(n)
	if err != nil {
		made = r
	}
	if first := v.add(key, made); !first || err == nil {
		return made
	}
	misfit(r, err)
	return made
}

// add adds a copy, and reports whether there was none.
func (v *Variants) add(key variantKey, made *Rule) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.rules[key] != nil {
		return false
	}
	if v.rules == nil || len(v.rules) >= maxVariants {
		v.rules = map[variantKey]*Rule{}
	}
	v.rules[key] = made
	return true
}

// Forget drops all copies, so that rules that are no longer in force need no memory.
func (v *Variants) Forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.rules = nil
}
