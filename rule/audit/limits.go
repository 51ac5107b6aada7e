package audit

import (
	"fmt"
	"math/bits"

	"stint"
	"stint/internal/text"
	"stint/rule"
	"stint/rule/penalty"
)

// maxLogBytes is the size of the state of one sliding_log key above which large-log is reported.
const maxLogBytes = 64 << 10

// names finds replaced names that no rule has, and names that are used twice.
func (a *auditor) names() {
	given, names := map[string]bool{}, map[string]bool{}
	for _, r := range a.rules {
		given[r.Given], names[r.Name] = true, true
	}
	for _, r := range a.rules {
		for _, name := range r.Replaces {
			if !given[name] {
				a.find("replaces-nobody", ruleAt(r), r.Name, fmt.Sprintf("replaces %q, but no limit of domain %s has this name", name, a.domain.Name()),
					"check the name; a limit gets one with the word name in its rate_limit")
			}
		}
	}
	lists := map[string]int{}
	for _, l := range a.domain.Lists() {
		if line, twice := lists[l.Name]; twice {
			a.find("double-list-name", a.inFile(l.Line), "", fmt.Sprintf("the list in line %[2]d has the name %[1]q too: answers, logs and metrics cannot tell them apart", l.Name, line), "give each list a name of its own")
		} else if names[l.Name] {
			a.find("double-list-name", a.inFile(l.Line), "", fmt.Sprintf("a rule has the name %q too: answers, logs and metrics cannot tell them apart", l.Name), "give the list a name of its own")
		} else {
			lists[l.Name] = l.Line
		}
	}
}

// numbers finds numbers with a surprising cost or effect.
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
			a.find("rounded-rate", ruleAt(r), r.Name, fmt.Sprintf("one request is rounded up to %.0f microseconds, so %d per %s allows %.6g per second, %.1f%% less than %.6g", 1e6/admits, s.Requests, text.FormatDuration(s.Per), admits, lost, asked),
				"choose a rate whose period divides into whole microseconds, or fixed_window or sliding_window")
		}
	}
	if s.Requests == 0 {
		a.find("zero-requests", ruleAt(r), r.Name, "0 requests: everything that matches is always denied", "write unlimited: true if all should pass")
	}
	if more := r.Stored.Spec(); r.Soft > 0 && s.Requests > 0 && more.Requests == s.Requests && more.Burst == s.Burst {
		a.find("soft-adds-nothing", ruleAt(r), r.Name, fmt.Sprintf("soft: %v of %d requests is less than one, so it adds nothing", r.Soft, s.Requests), "write a larger part, or remove it")
	}
}

// policies finds settings that have no effect on any answer, and settings that protocols treat
// differently.
func (a *auditor) policies(r *rule.Rule) {
	if r.Answers != nil && !a.domain.HasHTTP() {
		a.find("unseen-answers", ruleAt(r), r.Name, fmt.Sprintf("it counts responses, but domain %s has no http section: callers of the service are charged at once, unless they ask with reserve and settle", a.domain.Name()),
			"add http: and use the middleware, ask with reserve and settle, or write count: requests")
	}
	if r.Denial != nil && r.Shadow {
		a.find("denial-in-shadow", ruleAt(r), r.Name, "it has a denial, but in shadow mode it denies nobody", "remove one of the two, unless the mode is to end soon")
	}
	if id := penalty.IdentityOf(r, a.domain.HTTP()); r.Penalty != nil && id.Account && !id.Address && !id.Device && !id.Other {
		a.find("account-lockout", ruleAt(r), r.Name, "its penalty is on an account alone: whoever names the account of another and is denied often enough shuts its owner out",
			"count by the pair: nest a descriptor for the address or the device below the account's, and put the penalty there")
	}
	if r.Limit.Spec().Overdraw {
		a.find("overdraw-peek", ruleAt(r), r.Name, "while nothing remains, a descriptor of 0 hits is OVER_LIMIT in Envoy's protocol; /v1/check and the middlewares always allow such a peek",
			"read `remaining`, which is 0 in both")
	}
}

// logBytes estimates the largest state of a sliding_log key: 112 bytes, and for each request one
// byte for its units and the bytes of a varint of the average distance in microseconds.
func logBytes(s *stint.Spec) int64 {
	if s.Requests == 0 {
		return 0
	}
	distance := s.Per.Microseconds() / int64(s.Requests)
	each := int64(1 + (bits.Len64(uint64(distance)|1)+6)/7)
	return 112 + each*int64(s.Requests)
}

// most returns the most units that a rule can ever allow at once.
func most(r *rule.Rule) int64 {
	if r.Limit.Algorithm() == stint.Unlimited {
		return stint.NoLimit
	}
	if r.Elastic != nil {
		return max(r.Stored.Capacity(), r.Elastic.Cap.Capacity())
	}
	if r.Terms != nil && r.Terms.Own != nil { // each request is charged to one of the two
		return max(r.Terms.Own.Capacity(), r.Terms.Rest.Capacity())
	}
	return r.Stored.Capacity()
}
