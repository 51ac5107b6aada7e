package rule

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"stint"
)

// maxLogBytes is what a key of a sliding_log may take before we warn.
const maxLogBytes = 64 << 10

// lint looks for what a file says but can hardly mean.
func (f *fileCompiler) lint() {
	given := map[string]bool{}
	for _, r := range f.rules {
		given[r.Given] = true
	}
	for _, r := range f.rules {
		for _, name := range r.Replaces {
			if !given[name] {
				f.warn(r.Line, r.Name, fmt.Sprintf("replaces %q, which no limit of domain %s is named", name, f.domain.name), "check the name; a limit gets one with the word name in its rate_limit")
			}
		}
		f.lintLimit(r)
		f.lintAnswers(r)
	}
	f.lintLevel(f.domain.root)
	for i := range f.domain.http {
		f.lintHTTP(&f.domain.http[i])
	}
}

// lintLimit warns of numbers that cost or mean more than one would think.
func (f *fileCompiler) lintLimit(r *Rule) {
	s := r.Limit.Spec()
	switch s.Algorithm {
	case stint.Unlimited:
		return
	case stint.SlidingLog:
		if n := logBytes(&s); n > maxLogBytes {
			f.warn(r.Line, r.Name, fmt.Sprintf("a sliding_log of %d requests may take %d KiB for each key", s.Requests, n>>10),
				"sliding_window with blocks: 60 takes under 1 KiB and errs by at most one block's traffic")
		}
	case stint.TokenBucket, stint.LeakyBucket:
		if s.Requests == 0 || s.Step {
			break
		}
		per, n := s.Per.Microseconds(), int64(s.Requests)
		charge := (per + n - 1) / n
		if lost := 100 - 100*float64(per)/float64(charge*n); lost > 1 {
			f.warn(r.Line, r.Name, fmt.Sprintf("one request is rounded up to %d microseconds, so the rate is %.1f%% lower than %d per %s", charge, lost, n, shortest(s.Per)),
				"choose a rate whose period divides into whole microseconds, or fixed_window or sliding_window")
		}
	}
	if s.Requests == 0 {
		f.warn(r.Line, r.Name, "0 requests: everything that matches is denied, for ever", "write unlimited: true if all should pass")
	}
	if more := r.Stored.Spec(); r.Soft > 0 && s.Requests > 0 && more.Requests == s.Requests && more.Burst == s.Burst {
		f.warn(r.Line, r.Name, fmt.Sprintf("soft: %v of %d requests is less than one, so it adds nothing", r.Soft, s.Requests), "write a larger part, or leave it out")
	}
}

// lintAnswers warns of words about answers that nobody gives or sees.
func (f *fileCompiler) lintAnswers(r *Rule) {
	if r.Answers != nil && !f.domain.HasHTTP() {
		f.warn(r.Line, r.Name, fmt.Sprintf("it counts responses, and domain %s has no http section: who asks from outside shows no answer, so each request is charged at once", f.domain.name),
			"add http: and use the middleware, or write count: requests")
	}
	if r.Denial != nil && r.Shadow {
		f.warn(r.Line, r.Name, "it has a denial, and in shadow mode it denies nobody", "leave one of the two out, unless the mode is to end soon")
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

// lintLevel warns of nodes that can never limit anything.
func (f *fileCompiler) lintLevel(l level) {
	for _, n := range l.nodes() {
		at := n.path[len(n.path)-1]
		c := l[at.Key]
		if len(n.rules) == 0 && len(n.children) == 0 && c.last(n) {
			f.warn(n.line, "", fmt.Sprintf("descriptor %s has neither a limit nor descriptors, and hides no other", at), "give it a rate_limit, or leave it out")
		}
		if by := c.shadowed(n); by != nil {
			f.warn(n.line, "", fmt.Sprintf("descriptor %s never matches: %s in line %d comes first", at, by.path[len(by.path)-1], by.line), "put the more special pattern first, or leave one of the two out")
		}
		f.lintLevel(n.children)
	}
}

// last says whether no other node of the same key would match what n does.
func (c *candidates) last(n *node) bool {
	at := n.path[len(n.path)-1]
	if at.Value == "" {
		return true
	}
	if c.any != nil {
		return false
	}
	if at.Wildcard {
		return c.wild[len(c.wild)-1].node == n
	}
	return !slices.ContainsFunc(c.wild, func(w wildcard) bool { return w.matches(at.Value) })
}

// shadowed returns a pattern before n that matches all that n does.
func (c *candidates) shadowed(n *node) *node {
	at := n.path[len(n.path)-1]
	for i := range c.wild {
		w := &c.wild[i]
		switch {
		case w.node == n:
			return nil
		case at.Value == "" && w.all(), at.Wildcard && (w.all() || w.matches(at.Value)):
			return w.node
		}
	}
	return nil
}

// all says whether the pattern matches every value.
func (w *wildcard) all() bool { return w.prefix == "" && w.suffix == "" && len(w.middle) == 0 }

// lintHTTP warns of actions that make a descriptor which no rule knows.
func (f *fileCompiler) lintHTTP(h *httpLimit) {
	levels := []level{f.domain.root}
	keys := h.actions.Keys() // what follows one that may be left out may stand at several levels
	var path []string
	for _, either := range keys {
		path = append(path, strings.Join(either, " or "))
		var below []level
		for _, l := range levels {
			below = append(below, l.below(either)...)
		}
		if below == nil {
			f.warn(h.line, "", fmt.Sprintf("these actions describe a request as %s, and no descriptor stands there", strings.Join(path, "/")),
				"the keys of the actions, in their order, are the keys of nested descriptors")
			return
		}
		levels = below
	}
}

// below returns the levels below the nodes that have one of the keys.
func (l level) below(keys []string) []level {
	var below []level
	for _, key := range keys {
		if c := l[key]; c != nil {
			for _, n := range c.nodes() {
				below = append(below, n.children)
			}
		}
	}
	return below
}
