package telemetry

import (
	"slices"
	"strings"
	"sync"

	"stint/limiter"
	"stint/rule"
)

// maxDetails is the maximum number of names with values of requests.
const maxDetails = 1000

// details are the counters whose names contain values of requests.
type details struct {
	mu     sync.RWMutex // guards the fields below
	byPath map[string]*envoyCounters
	all    []*envoyCounters
}

// detailed returns the counters of a rule for a request: those with values of the request in their
// name, if the rule asks for them and there are fewer than maxDetails names.
func (s *EnvoyStats) detailed(b *envoyBoard, r *rule.Rule, v *limiter.Verdict, descriptor int) *envoyCounters {
	plain := b.of(r)
	if plain == nil || r.Index < 0 || !isDetailed(r) {
		return plain
	}
	entries, keys := v.Entries(descriptor), make([]string, len(r.Path))
	size := len(plain.domain)
	for i := range r.Path {
		keys[i] = plain.keys[i]
		if at := &r.Path[i]; (r.DetailedMetric || at.ValueToMetric) && (at.Value == "" || at.Wildcard) && entries[i].Value != "" {
			keys[i] = clean(at.Key) + "_" + clean(entries[i].Value)
		}
		size += 1 + len(keys[i])
	}
	if size > maxName*len(keys) {
		return plain
	}
	return s.details.counters(plain, keys)
}

// isDetailed reports whether names of a rule contain values of requests.
func isDetailed(r *rule.Rule) bool {
	if r.DetailedMetric {
		return true
	}
	for i := range r.Path {
		if r.Path[i].ValueToMetric {
			return true
		}
	}
	return false
}

// counters returns the counters of a name, or plain if there are too many names.
func (d *details) counters(plain *envoyCounters, keys []string) *envoyCounters {
	path := plain.domain + "." + strings.Join(keys, ".")
	d.mu.RLock()
	c := d.byPath[path]
	d.mu.RUnlock()
	if c != nil {
		return c
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.byPath[path] != nil:
		return d.byPath[path]
	case len(d.all) >= maxDetails:
		return plain
	}
	c = &envoyCounters{domain: plain.domain, keys: keys, path: path}
	d.byPath[path] = c
	d.all = append(d.all, c)
	return c
}

// list returns all counters.
func (d *details) list() []*envoyCounters {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.Clip(d.all)
}
