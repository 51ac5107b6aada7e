package limiter

import "stint/rule"

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
