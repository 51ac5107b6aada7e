package inforce

import (
	"stint/limiter"
	"stint/rule"
)

// CheckOverride checks the numbers of an override against all rules of l with that name, which several
// domains may have. known reports whether there is any. The error is a [*rule.NumbersError].
func CheckOverride(l *limiter.Limiter, name string, n rule.Numbers) (known bool, err error) {
	if table := l.Table(); table != nil {
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
	if l.Catalog() == nil {
		return known, nil
	}
	r, ok := l.Catalog().Rule(name)
	if !ok {
		return known, nil
	}
	_, err = r.With(n)
	return true, err
}
