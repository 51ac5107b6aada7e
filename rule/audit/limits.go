package audit

import (
	"fmt"
	"math/bits"

	"stint"
	"stint/internal/text"
	"stint/rule"
)

// maxLogBytes is what a key of a sliding_log may take before we warn.
const maxLogBytes = 64 << 10

// names looks for names that nobody bears, and that several do.
func (a *auditor) names() {
	given, names := map[string]bool{}, map[string]bool{}
	for _, r := range a.rules {
		given[r.Given], names[r.Name] = true, true
	}
	for _, r := range a.rules {
		for _, name := range r.Replaces {
			if !given[name] {
				a.find("replaces-nobody", ruleAt(r), r.Name, fmt.Sprintf("replaces %q, which no limit of domain %s is named", name, a.domain.Name()),
					"check the name; a limit gets one with the word name in its rate_limit")
			}
		}
	}
	lists := map[string]int{}
	for _, l := range a.domain.Lists() {
		if line, twice := lists[l.Name]; twice {
			a.find("double-list-name", a.inFile(l.Line), "", fmt.Sprintf("the name %q is that of the list in line %d: answers, logs and metrics do not tell them apart", l.Name, line), "give each list a name of its own")
		} else if names[l.Name] {
			a.find("double-list-name", a.inFile(l.Line), "", fmt.Sprintf("the name %q is that of a rule: answers, logs and metrics do not tell them apart", l.Name), "give the list a name of its own")
		} else {
			lists[l.Name] = l.Line
		}
	}
}

// numbers looks for numbers that cost or mean more than one would think.
func (a *auditor) numbers(r *rule.Rule) {
	s := r.Limit.Spec()
	switch s.Algorithm {
	case stint.Unlimited:
		return
	case stint.SlidingLog:
		if n := logBytes(&s); n > maxLogBytes {
			a.find("large-log", ruleAt(r), r.Name, fmt.Sprintf("a sliding_log of %d requests may take %d KiB for each key", s.Requests, n>>10),
				"sliding_window with blocks: 60 takes under 1 KiB and errs by at most one block's traffic")
		}
	case stint.TokenBucket, stint.LeakyBucket:
		if s.Requests == 0 || s.Step {
			break
		}
		asked, admits := float64(s.Requests)/s.Per.Seconds(), r.Limit.Rate()
		if lost := 100 - 100*admits/asked; lost > 1 {
			a.find("rounded-rate", ruleAt(r), r.Name, fmt.Sprintf("one request is rounded up to %.0f microseconds, so %d per %s admits %.6g per second, %.1f%% less than %.6g", 1e6/admits, s.Requests, text.FormatDuration(s.Per), admits, lost, asked),
				"choose a rate whose period divides into whole microseconds, or fixed_window or sliding_window")
		}
	}
	if s.Requests == 0 {
		a.find("zero-requests", ruleAt(r), r.Name, "0 requests: everything that matches is denied, for ever", "write unlimited: true if all should pass")
	}
	if more := r.Stored.Spec(); r.Soft > 0 && s.Requests > 0 && more.Requests == s.Requests && more.Burst == s.Burst {
		a.find("soft-adds-nothing", ruleAt(r), r.Name, fmt.Sprintf("soft: %v of %d requests is less than one, so it adds nothing", r.Soft, s.Requests), "write a larger part, or leave it out")
	}
}

// policies looks for words about answers that nobody gives or sees, and for those
// that front ends understand each in its own way.
func (a *auditor) policies(r *rule.Rule) {
	if r.Answers != nil && !a.domain.HasHTTP() {
		a.find("unseen-answers", ruleAt(r), r.Name, fmt.Sprintf("it counts responses, and domain %s has no http section: who asks from outside shows no answer, so each request is charged at once", a.domain.Name()),
			"add http: and use the middleware, or write count: requests")
	}
	if r.Denial != nil && r.Shadow {
		a.find("denial-in-shadow", ruleAt(r), r.Name, "it has a denial, and in shadow mode it denies nobody", "leave one of the two out, unless the mode is to end soon")
	}
	if r.Limit.Spec().Overdraw {
		a.find("overdraw-peek", ruleAt(r), r.Name, "while nothing of it is left, a descriptor of 0 hits is OVER_LIMIT over Envoy's protocol; /v1/check and the middlewares allow a look at any time",
			"read `remaining`, which is 0 in both")
	}
}

// logBytes estimates the most that a key of a sliding_log may take: 112 bytes, and
// for each request a byte for its units and the bytes of a varint of the average
// distance in microseconds.
func logBytes(s *stint.Spec) int64 {
	if s.Requests == 0 {
		return 0
	}
	distance := s.Per.Microseconds() / int64(s.Requests)
	each := int64(1 + (bits.Len64(uint64(distance)|1)+6)/7)
	return 112 + each*int64(s.Requests)
}

// most returns the most that can ever pass a rule at once.
func most(r *rule.Rule) int64 {
	if r.Limit.Algorithm() == stint.Unlimited {
		return stint.NoLimit
	}
	if r.Elastic != nil {
		return max(r.Stored.Capacity(), r.Elastic.Cap.Capacity())
	}
	if r.Terms != nil && r.Terms.Own != nil { // a request is charged to one of the two
		return max(r.Terms.Own.Capacity(), r.Terms.Rest.Capacity())
	}
	return r.Stored.Capacity()
}
