package limits

import (
	"net/http"
	"slices"

	"stint/gateway/internal/placement"
	"stint/gateway/queue"
	"stint/httplimit"
)

// A request that comes to two directives of a domain in one phase is decided by the first alone. Where every
// request would come to both, the second one is refused.

// decision names a decision about a request.
type decision struct {
	domain string
	early  bool
}

// repeats reports whether a request that d decided is not decided again by other: stint decides all elements
// that stint_early has not, so stint_early behind it has nothing to add.
func (d decision) repeats(other decision) bool {
	return d.domain == other.domain && (d.early == other.early || other.early)
}

func (h *Handler) decision() decision {
	return decision{h.Domain, h.options.Phase == httplimit.Early}
}

// decided reports whether the request was decided by an earlier directive of the domain, or by the worker of
// the queue that sends it. If not, it records that this directive does it.
func (h *Handler) decided(r *http.Request) bool {
	if record := queue.Delivered(r.Context()); record != nil && record.Domain == h.Domain {
		return true // its limits were asked
	}
	o := h.outcomes.of(r)
	if o == nil {
		return false
	}
	next := h.decision()
	if slices.ContainsFunc(o.decided, func(before decision) bool { return before.repeats(next) }) {
		return true
	}
	if o.decided == nil {
		o.decided = o.few[:0]
	}
	o.decided = append(o.decided, next)
	return false
}

// CheckPlace returns an error if every request that comes to the handler was decided before.
func (h *Handler) CheckPlace(p placement.Place) error {
	for _, before := range p.Before {
		other, ok := before.(interface{ limits() *Handler })
		if ok && other.limits().decision().repeats(h.decision()) {
			return h.fault(h.site.Name+" "+h.Domain+" comes behind "+other.limits().site.Name+" "+h.Domain+" of "+other.limits().Place+", so it would decide nothing",
				"remove one of the two, or give them matchers")
		}
	}
	return nil
}

func (h *Handler) limits() *Handler { return h }
