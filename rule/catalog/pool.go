package catalog

import (
	"regexp"
	"strings"

	"stint"
)

// pool is the append-only data that successive versions share. Only the goroutine that makes a
// version uses it.
type pool struct {
	chunks  []*[chunkLen]byte
	used    int // bytes used in the last chunk
	written int // bytes written in total
	terms   []*terms
	classes []classOf

	termsOf map[termsKey]uint32
	limits  map[stint.Spec]*stint.Limit
	classOf map[string]uint32

	pattern pattern // reused for each url
	buf     []byte
}

type termsKey struct {
	domain, time, algorithm, policy string
	requests, burst                 uint64
}

func newPool() *pool {
	return &pool{termsOf: map[termsKey]uint32{}, limits: map[stint.Spec]*stint.Limit{}, classOf: map[string]uint32{}}
}

// errFull means that no more text or rules can be addressed.
var errFull = &hinted{"the catalog is full", "a catalog holds at most 4 GiB of text and 4 billion rules; split it"}

// write stores the strings one after another and returns their position.
func (p *pool) write(parts ...string) (uint32, error) {
	n := 0
	for _, s := range parts {
		n += len(s)
	}
	if len(p.chunks) == 0 || chunkLen-p.used < n {
		if len(p.chunks) == 1<<(32-chunkBits) {
			return 0, errFull
		}
		p.chunks, p.used = append(p.chunks, new([chunkLen]byte)), 0
	}
	last := len(p.chunks) - 1
	at := p.used
	for _, s := range parts {
		p.used += copy(p.chunks[last][p.used:], s)
	}
	p.written += n
	return uint32(last)<<chunkBits | uint32(at), nil
}

// termsFor returns the number of the terms of a rule; it adds missing terms.
func (p *pool) termsFor(r *Rule) (uint32, error) {
	key := termsKey{r.Domain, r.Time, r.Algorithm, r.Policy, r.Requests, r.Burst}
	if n, ok := p.termsOf[key]; ok {
		return n, nil
	}
	t, err := newTerms(r)
	if err != nil {
		return 0, err
	}
	t.limit, t.stored = p.limit(t.limit), p.limit(t.stored)
	// Clone the texts, because they may be part of a large string of the caller.
	for _, s := range []*string{&t.domain, &t.time, &t.algorithm, &t.policy} {
		*s = strings.Clone(*s)
	}
	key.domain, key.time, key.algorithm, key.policy = t.domain, t.time, t.algorithm, t.policy
	p.terms = append(p.terms, t)
	p.termsOf[key] = uint32(len(p.terms) - 1)
	return uint32(len(p.terms) - 1), nil
}

// limit returns a shared limit with the same numbers.
func (p *pool) limit(l *stint.Limit) *stint.Limit {
	if known := p.limits[l.Spec()]; known != nil {
		return known
	}
	p.limits[l.Spec()] = l
	return l
}

// class returns the number of a class; it adds a missing class.
func (p *pool) class(source string, regex *regexp.Regexp) uint32 {
	n, ok := p.classOf[source]
	if !ok {
		n = uint32(len(p.classes))
		source = strings.Clone(source)
		p.classes = append(p.classes, classOf{source, regex})
		p.classOf[source] = n
	}
	return n
}
