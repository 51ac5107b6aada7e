package view

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Plan is a plan as the admin API shows it.
type Plan struct {
	Plan   string
	Limits map[string]json.RawMessage
}

// Names returns the names of the limits.
func (p *Plan) Names() string {
	return OrDash(strings.Join(slices.Sorted(maps.Keys(p.Limits)), " "))
}

// Write writes a line for each limit.
func (p *Plan) Write(w io.Writer) {
	for _, name := range slices.Sorted(maps.Keys(p.Limits)) {
		fmt.Fprintf(w, "%s: %s\n", name, p.Limits[name])
	}
}

// Plans are a page of plans.
type Plans struct{ Records []Plan }

// Write writes a line for each plan.
func (p *Plans) Write(w io.Writer) {
	if len(p.Records) == 0 {
		fmt.Fprintln(w, "none beside those in rule files")
		return
	}
	fmt.Fprintln(w, "PLAN\tLIMITS")
	for i := range p.Records {
		fmt.Fprintf(w, "%s\t%s\n", p.Records[i].Plan, p.Records[i].Names())
	}
}

// PlanWords returns the plan of a client, the one that it gets later, and until when it has the last of
// them.
func (r *Record) PlanWords() string {
	words := planWords(r.Plan)
	if r.NextFrom != "" {
		words += ", from " + r.NextFrom + " " + planWords(r.NextPlan)
	}
	if r.PlanUntil != "" {
		words += " until " + r.PlanUntil
	}
	return words
}

func planWords(name string) string {
	if name == "" {
		return "the default plan"
	}
	return "plan " + name
}
