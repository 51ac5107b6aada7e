package view

import (
	"fmt"
	"io"
	"strings"
)

// Record is a record as the admin API shows it.
type Record struct {
	Record, Hash, Last, Subject, Pattern, Address, Network, Rule, Kind, Plan string

	Groups          []string
	Notes           string
	Subscribed      string
	PlanUntil       string `json:"plan_until"`
	NextPlan        string `json:"next_plan"`
	NextFrom        string `json:"next_from"`
	Requests, Burst uint32
	Per             string
	Unlimited       bool
	Replaces        string
	ReplacedBy      string `json:"replaced_by"`
	Until, Why      string
	ID, Limit       string
	Units           uint32
	Priority        uint8
	From            string
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

// PrintKey prints a new API key.
func (r *Record) PrintKey(w io.Writer) {
	key := r.Key + "  (shown once)"
	if r.Repeated {
		key = "made before, and not shown again"
	}
	fmt.Fprintf(w, "key\t%s\nhash\t%s\nsubject\t%s\nuntil\t%s\n", key, r.Hash, r.Subject, r.End())
	if r.Replaces != "" {
		fmt.Fprintf(w, "replaces\t%s\n", r.Replaces)
	}
}

// Page is a page of records.
type Page struct {
	Records []Record
	Next    *string
}

// Columns are how a list shows records.
type Columns struct {
	names string
	row   func(w io.Writer, r *Record)
}

// The columns of each list.
var (
	Bans = Columns{"WHO\tUNTIL\tWHY", func(w io.Writer, r *Record) {
		fmt.Fprintf(w, "%s\t%s\t%s\n", r.Who(), r.End(), OrDash(r.Why))
	}}
	Overrides = Columns{"WHO\tRULE\tNUMBERS\tUNTIL\tWHY", func(w io.Writer, r *Record) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Who(), r.Rule, r.Numbers(), r.End(), OrDash(r.Why))
	}}
	Grants = Columns{"WHO\tID\tLIMIT\tUNITS\tPRIORITY\tFROM\tUNTIL\tWHY", func(w io.Writer, r *Record) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", r.Who(), r.ID, r.Limit, r.Units, r.Priority, OrDash(r.From), r.End(), OrDash(r.Why))
	}}
	Keys = Columns{"HASH\tLAST\tSUBJECT\tUNTIL\tREPLACED\tWHY", func(w io.Writer, r *Record) {
		replaced := "-"
		if r.ReplacedBy != "" {
			replaced = "by " + r.ReplacedBy[:12]
		}
		fmt.Fprintf(w, "%s\t...%s\t%s\t%s\t%s\t%s\n", r.Hash[:12], r.Last, r.Subject, r.End(), replaced, OrDash(r.Why))
	}}
)

// Print prints the records in columns.
func (a *Page) Print(w io.Writer, as Columns) {
	if len(a.Records) == 0 && a.Next == nil {
		fmt.Fprintln(w, "none")
		return
	}
	fmt.Fprintln(w, as.names)
	for i := range a.Records {
		as.row(w, &a.Records[i])
	}
	if a.Next != nil {
		fmt.Fprintf(w, "and more, after %q\n", *a.Next)
	}
}
