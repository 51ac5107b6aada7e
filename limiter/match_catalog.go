package limiter

import (
	"stint"
	"stint/rule/catalog"
)

// shared is a descriptor whose bucket of the catalog an earlier descriptor uses too. A call takes
// once from the bucket, with the higher cost.
type shared struct{ descriptor, matched int }

// matchCatalog adds the rules of the catalog that match a descriptor. It returns false if the path
// has too many readings, see [catalog.Catalog.Match].
func (v *Verdict) matchCatalog(rules *catalog.Catalog, descriptor int, req *Request) bool {
	d := &req.Descriptors[descriptor]
	from := v.matched.Len()
	ok := rules.Match(&v.matched, req.Domain, d.Entries)
	for n := from; n < v.matched.Len(); n++ {
		if first := v.matched.First(n); first != n && v.join(first+1, descriptor, req) {
			continue
		}
		v.Asked = append(v.Asked, Asked{
			Descriptor: descriptor, Rule: v.matched.Rule(n), Cost: d.Cost, Decision: unmatched, matched: n + 1,
		})
	}
	return ok
}

// join lets a descriptor share the take of an earlier one, unless one of them refunds and the other
// takes.
func (v *Verdict) join(matched, descriptor int, req *Request) bool {
	d := &req.Descriptors[descriptor]
	for i := range v.Asked {
		a := &v.Asked[i]
		if a.matched != matched || req.Descriptors[a.Descriptor].Refund != d.Refund {
			continue
		}
		a.Cost = max(a.Cost, d.Cost)
		v.shared = append(v.shared, shared{descriptor, matched})
		return true
	}
	return false
}

// answerShared answers the descriptors that share takes of others.
func (v *Verdict) answerShared() {
	for _, s := range v.shared {
		for i := range v.Asked {
			a := &v.Asked[i]
			if a.matched != s.matched {
				continue
			}
			result := &v.Results[s.descriptor]
			if result.Rule == nil {
				*result = Result{Rule: a.Rule, Decision: a.shown()}
				continue
			}
			v.some = append(v.some[:0], result.Decision, a.shown())
			if d, n := stint.Combine(v.some); n == 1 {
				*result = Result{Rule: a.Rule, Decision: d}
			}
		}
	}
}
