// Package plan reads the plans of rule files: named sets of limits, one of which each client has; and what
// is kept of the use of a limit.
package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"stint/internal/strictyaml"
	"stint/internal/text"
)

// Deny is the name that stands for no plan: a client without a plan is denied.
const Deny = "deny"

// Set is the plans of all rule files of a table. The zero Set has no plan. It is not safe for
// concurrent use.
type Set struct {
	plans   map[string]*Plan
	Default string // plan of clients that have none; Deny: they are denied; "": the files do not say

	fallback   *strictyaml.Value // `default_plan`
	fallbackAt string            // its file
}

// Plan is one plan as it stands in a file.
type Plan struct {
	Name   string
	File   string
	Line   int
	Stored bool // it is a record, and not part of a rule file

	limits map[string][]strictyaml.Value
	order  []string // names of the limits in the order of the file
}

// Limits returns the names of the plan's limits, in the order of the file.
func (p *Plan) Limits() []string { return p.order }

// Limit returns the limits of a name, nil if the plan has none.
func (p *Plan) Limit(name string) []strictyaml.Value { return p.limits[name] }

// Read reads `plans` of a file: objects NAME: {LIMITNAME: limit or list of limits}.
func (s *Set) Read(v strictyaml.Value, file string, stored bool) {
	fields := v.Fields()
	if len(fields) == 0 && (v.IsObject() || v.IsNull()) {
		v.Fail("plans is empty", "write plans such as free: {api: {requests: 100, per: 1d}}, or leave it out")
	}
	for _, f := range fields {
		s.plan(f, file, stored)
	}
}

// plan reads one plan.
func (s *Set) plan(f strictyaml.Field, file string, stored bool) {
	p := &Plan{Name: f.Name, File: file, Line: f.Line, Stored: stored, limits: map[string][]strictyaml.Value{}}
	if problem, hint := CheckName(p.Name); problem != "" {
		f.Value.Fail("plan "+text.Quote(p.Name)+": "+problem, hint)
		return
	}
	if first := s.plans[p.Name]; first != nil {
		hint := "keep one of the two; plans are common to all rule files"
		if stored {
			hint = "plans of rule files are read-only: change the file, or give this plan another name"
		}
		f.Value.Fail(fmt.Sprintf("plan %s stands twice, first in %s:%d", p.Name, first.File, first.Line), hint)
		return
	}
	for _, limits := range f.Value.Fields() {
		list := limits.Value.OneOrList()
		if problem, hint := CheckName(limits.Name); problem != "" {
			limits.Value.Fail("limits "+text.Quote(limits.Name)+": "+problem, hint)
			continue
		}
		if len(list) == 0 {
			limits.Value.Fail(fmt.Sprintf("plan %s: %s is empty", p.Name, limits.Name), "give it a limit such as {requests: 100, per: 1d}, or leave it out: rules that ask for it then deny clients of this plan")
			continue
		}
		p.limits[limits.Name] = list
		p.order = append(p.order, limits.Name)
	}
	if s.plans == nil {
		s.plans = map[string]*Plan{}
	}
	s.plans[p.Name] = p
}

// CheckName returns what is wrong with the name of a plan, or of limits in it; "" if nothing is.
func CheckName(name string) (problem, hint string) {
	switch {
	case name == "":
		return "an empty name", "write a name such as free"
	case name == Deny:
		return "deny is no name of a plan", "choose another name: default_plan: deny means that clients without a plan are denied"
	case len(name) > 256:
		return "longer than 256 bytes", "choose a shorter name"
	case !text.Printable(name):
		return "has control characters or is not UTF-8", "write a name such as free"
	}
	return "", ""
}

// ReadDefault reads `default_plan`.
func (s *Set) ReadDefault(v strictyaml.Value, file string) {
	name := v.NonEmpty()
	if name == "" {
		return
	}
	if s.fallback != nil && s.Default != name {
		v.Fail(fmt.Sprintf("default_plan: %s, and %s:%d says %s", name, s.fallbackAt, s.fallback.Line(), s.Default), "there is one default plan for all rule files; keep one of the two")
		return
	}
	s.Default, s.fallback, s.fallbackAt = name, &v, file
}

// Check reports a default plan that no rule file has. All files must have been read.
func (s *Set) Check() {
	if s.fallback == nil || s.Default == Deny {
		return
	}
	if p := s.plans[s.Default]; p != nil && !p.Stored {
		return
	}
	hint := "write deny, or one of the plans in the rule files: " + s.names()
	if near := strictyaml.Nearest(s.Default, slices.Sorted(maps.Keys(s.plans))); near != "" && !s.plans[near].Stored {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	s.fallback.Fail(fmt.Sprintf("default_plan: no rule file has the plan %q", s.Default), hint)
}

// names returns the names of the plans in rule files, for a hint.
func (s *Set) names() string {
	var names []string
	for _, p := range s.All() {
		if !p.Stored {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return "there is none"
	}
	return strings.Join(names, ", ")
}

// All returns all plans, sorted by name with the default plan first.
func (s *Set) All() []*Plan {
	all := slices.Collect(maps.Values(s.plans))
	slices.SortFunc(all, func(a, b *Plan) int {
		if (a.Name == s.Default) != (b.Name == s.Default) {
			if a.Name == s.Default {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all
}

// Hint says which limits the plans have, for a rule that asks for others.
func (s *Set) Hint(name string) string {
	var known []string
	for _, p := range s.All() {
		known = append(known, p.order...)
	}
	slices.Sort(known)
	known = slices.Compact(known)
	if near := strictyaml.Nearest(name, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(known) == 0 {
		return "add plans: with a plan that has them, such as free: {" + name + ": {requests: 100, per: 1d}}"
	}
	return "the plans have " + strings.Join(known, ", ")
}

// Place is the limits of several plans that share the state of a client: those with the same name, or
// those without a name at the same position of their lists.
type Place struct {
	ID     string // the name, or the position such as "1"
	Named  bool
	Limits []Limit // at most one for each plan; that of the default plan is first
}

// Limit is a limit of one plan.
type Limit struct {
	Plan *Plan
	At   strictyaml.Value
}

// Places returns the places of the limits of a name: first those without a name, by their position. It
// also returns the names of the plans that have such limits.
func (s *Set) Places(name string) (places []*Place, plans map[string]bool) {
	plans = map[string]bool{}
	byID := map[string]*Place{}
	for _, p := range s.All() {
		for i, v := range p.limits[name] {
			plans[p.Name] = true
			id, named := strconv.Itoa(i+1), false
			if given, ok := v.Get("name"); ok && given.Text() != "" {
				id, named = given.Text(), true
			}
			if named && strings.Trim(id, "0123456789") == "" {
				v.Fail(fmt.Sprintf("plan %s: a limit has the number %s as its name", p.Name, id), "choose a name with a letter; numbers are positions in the list")
				continue
			}
			key := fmt.Sprint(named, id)
			place := byID[key]
			if place == nil {
				place = &Place{ID: id, Named: named}
				byID[key] = place
				places = append(places, place)
			}
			if n := len(place.Limits); n > 0 && place.Limits[n-1].Plan == p {
				v.Fail(fmt.Sprintf("plan %s: two limits %s have the name %q", p.Name, name, id), "give each a name of its own, or none")
				continue
			}
			place.Limits = append(place.Limits, Limit{p, v})
		}
	}
	slices.SortStableFunc(places, func(a, b *Place) int {
		switch {
		case a.Named != b.Named:
			if b.Named {
				return -1
			}
			return 1
		case a.Named:
			return 0
		}
		return len(a.ID)*100_000 - len(b.ID)*100_000 + strings.Compare(a.ID, b.ID)
	})
	return places, plans
}
