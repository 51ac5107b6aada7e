package limiter

import (
	"strings"
	"sync"

	"stint"
	"stint/rule"
)

// maxOverridden is the most copies of rules that a limiter keeps. Subjects with the same numbers share
// one.
const maxOverridden = 10_000

// overridden keeps the copies of rules with other numbers. Each is made once, until the rules or the
// numbers change.
type overridden struct {
	mu    sync.RWMutex
	rules map[overrideKey]*rule.Rule // the rule itself where the numbers do not fit
}

// overrideKey identifies a copy. A rule of the catalog has no pointer that lasts; its fields identify
// it.
type overrideKey struct {
	numbers       rule.Numbers
	rule          *rule.Rule
	domain, name  string
	limit, stored *stint.Limit
	shadow        bool
	failure       rule.Failure
}

func keyOf(r *rule.Rule, n rule.Numbers) overrideKey {
	if r.Index >= 0 {
		return overrideKey{numbers: n, rule: r}
	}
	return overrideKey{numbers: n, domain: r.Domain, name: r.Name, limit: r.Limit, stored: r.Stored, shadow: r.Shadow, failure: r.OnStoreFailure}
}

// with returns a rule with other numbers. If the numbers do not fit it calls misfit, once, and returns
// the rule itself.
func (o *overridden) with(r *rule.Rule, n rule.Numbers, misfit func(*rule.Rule, error)) *rule.Rule {
	key := keyOf(r, n)
	o.mu.RLock()
	made := o.rules[key]
	o.mu.RUnlock()
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
	if first := o.add(key, made); !first || err == nil {
		return made
	}
	misfit(r, err)
	return made
}

// add adds a copy, and reports whether there was none.
func (o *overridden) add(key overrideKey, made *rule.Rule) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.rules[key] != nil {
		return false
	}
	if o.rules == nil || len(o.rules) >= maxOverridden {
		o.rules = map[overrideKey]*rule.Rule{}
	}
	o.rules[key] = made
	return true
}

// forget drops all copies, so that rules that are no longer in force need no memory.
func (o *overridden) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rules = nil
}

// CheckOverride checks numbers against all rules of that name, which several domains may have. known
// reports whether there is any. The error is a [*rule.NumbersError].
func (l *Limiter) CheckOverride(name string, n rule.Numbers) (known bool, err error) {
	if table := l.table.Load(); table != nil {
		for _, r := range table.Rules() {
			if r.Name != name {
				continue
			}
			known = true
			if _, err := r.With(n); err != nil {
				return true, err
			}
		}
	}
	if l.catalog == nil {
		return known, nil
	}
	r, ok := l.catalog.Rule(name)
	if !ok {
		return known, nil
	}
	_, err = r.With(n)
	return true, err
}
