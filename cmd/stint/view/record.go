package view

import (
	"fmt"
	"strings"
)

// Record is a record as the admin API shows it.
type Record struct {
	Record, Hash, Last, Subject, Pattern, Address, Network, Rule, Kind, Plan string

	Groups          []string
	Notes           string
	Subscribed      string
	PlanUntil       string `json:"plan_until"`
	Requests, Burst uint32
	Per             string
	Unlimited       bool
	Replaces        string
	ReplacedBy      string `json:"replaced_by"`
	Until, Why      string
	Revision        uint64
	Changed         string
	Ended           bool
	Key             string
	Repeated        bool
}

// Who returns whom the record is about.
func (r *Record) Who() string { return r.Subject + r.Pattern + r.Address + r.Network }

// End returns when the record ends, for people.
func (r *Record) End() string {
	switch {
	case r.Until == "":
		return "no end"
	case r.Ended:
		return "ended " + r.Until
	}
	return r.Until
}

// Lasts says when a new record ends.
func (r *Record) Lasts() string {
	if r.Until == "" {
		return "without an end"
	}
	return "until " + r.Until
}

// Numbers returns what an override sets.
func (r *Record) Numbers() string {
	if r.Unlimited {
		return "unlimited"
	}
	var parts []string
	if r.Requests != 0 {
		parts = append(parts, fmt.Sprintf("requests %d", r.Requests))
	}
	if r.Per != "" {
		parts = append(parts, "per "+r.Per)
	}
	if r.Burst != 0 {
		parts = append(parts, fmt.Sprintf("burst %d", r.Burst))
	}
	return strings.Join(parts, " ")
}
