// Package view shows answers of the admin API on a terminal: in words why a request is denied, and live,
// drawn again each second, what a service knows about its rules, keys and nodes.
package view

import (
	"cmp"
	"slices"
	"time"
)

// Snapshot is what is known at one moment. Its fields have the names of the admin API.
type Snapshot struct {
	Summary Summary `json:"summary"` // GET /v1/facts
	Keys    []Key   `json:"keys"`    // GET /v1/facts/keys, of all rules
	Alarms  []Alarm `json:"alarms"`  // GET /v1/alarms
}

// Summary has the facts of nodes and rules.
type Summary struct {
	At    time.Time `json:"at"`
	Since time.Time `json:"since"`
	Nodes []Node    `json:"nodes"`
	Rules []Rule    `json:"rules"`
}

// Node is one process.
type Node struct {
	Name       string        `json:"name"`
	Decided    uint64        `json:"decided"`
	Failed     uint64        `json:"failed"`
	Degraded   uint64        `json:"degraded"`
	Median     time.Duration `json:"median_ns"`
	P99        time.Duration `json:"p99_ns"`
	Hash       string        `json:"hash"`
	StoreError string        `json:"store_error"`
}

// Rule has the counts of one rule.
type Rule struct {
	Domain  string `json:"domain"`
	Name    string `json:"name"`
	Shadow  bool   `json:"shadow"`
	Allowed uint64 `json:"allowed"`
	Denied  uint64 `json:"denied"`
	Over    uint64 `json:"over"`
	Keys    uint64 `json:"keys"`
}

// Key is one of the busiest keys.
type Key struct {
	Rule    string  `json:"rule"`
	ID      string  `json:"id"`
	Entries []Entry `json:"entries"`
	Allowed uint64  `json:"allowed"`
	Denied  uint64  `json:"denied"`
}

// Entry is one entry of a key. Value is empty where it is not shown.
type Entry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Alarm is something that is silently wrong.
type Alarm struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// rates are the changes since an earlier snapshot, a second.
type rates struct {
	seconds float64
	nodes   map[string]Node
	rules   map[[2]string]Rule
}

// names returns the names of the nodes, sorted.
func (s *Snapshot) names() []string {
	names := make([]string, len(s.Summary.Nodes))
	for i := range s.Summary.Nodes {
		names[i] = s.Summary.Nodes[i].Name
	}
	slices.Sort(names)
	return names
}

// since returns the rates since an earlier snapshot; nil: there is none.
func since(now, before *Snapshot) rates {
	r := rates{nodes: map[string]Node{}, rules: map[[2]string]Rule{}}
	if before == nil {
		return r
	}
	r.seconds = now.Summary.At.Sub(before.Summary.At).Seconds()
	for _, n := range before.Summary.Nodes {
		r.nodes[n.Name] = n
	}
	if !slices.Equal(now.names(), before.names()) {
		return r // a node that joins or leaves brings or takes all that it counted before
	}
	for _, one := range before.Summary.Rules {
		r.rules[[2]string{one.Domain, one.Name}] = one
	}
	return r
}

// of returns a rate, -1 if it is not known. A counter that went back began anew.
func (r *rates) of(now, before uint64, known bool) float64 {
	if !known || r.seconds <= 0 || now < before {
		return -1
	}
	return float64(now-before) / r.seconds
}

// sorted returns the rules with most denials first: in the last second, then in all.
func (r *rates) sorted(rules []Rule) []Rule {
	lately := func(a *Rule) float64 {
		before, known := r.rules[[2]string{a.Domain, a.Name}]
		return max(0, r.of(a.Denied, before.Denied, known))
	}
	rules = slices.Clone(rules)
	slices.SortStableFunc(rules, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(lately(&b), lately(&a)), cmp.Compare(b.Denied, a.Denied), cmp.Compare(b.Allowed, a.Allowed))
	})
	return rules
}
