package view

import (
	"fmt"
	"io"
	"time"
)

// Limits is the answer to /v1/limits.
type Limits struct {
	Rules   int
	Domains []struct {
		Domain string
		Rules  []struct {
			Name, File string
			Line       int
			Shadow     bool
			Candidate  *Limit
			Limit
		}
	}
}

// Print prints the rules in columns.
func (a *Limits) Print(w io.Writer) {
	if a.Rules == 0 {
		fmt.Fprintln(w, "the service has no rules")
		return
	}
	fmt.Fprintln(w, "DOMAIN\tRULE\tLIMIT\tPLACE")
	for _, d := range a.Domains {
		for _, r := range d.Rules {
			more := ""
			if r.Shadow {
				more = " (shadow)"
			}
			if r.Candidate != nil {
				more += " (trying " + r.Candidate.String() + ")"
			}
			fmt.Fprintf(w, "%s\t%s\t%s%s\t%s:%d\n", d.Domain, r.Name, &r.Limit, more, r.File, r.Line)
		}
	}
}

// Health is the answer to /readyz.
type Health struct {
	Ready  bool
	Reason string
	Rules  struct {
		Hash        string
		ReloadError string `json:"reload_error"`
		Count       int
	}
	Store struct{ Kind, Error string }
}

// Print prints the state of a service.
func (a *Health) Print(w io.Writer) {
	if a.Ready {
		fmt.Fprintln(w, "ready")
	} else {
		fmt.Fprintln(w, "not ready: "+a.Reason)
	}
	fmt.Fprintf(w, "rules\t%d\t%s\n", a.Rules.Count, a.Rules.Hash)
	if a.Rules.ReloadError != "" {
		fmt.Fprintf(w, "reload refused\t%s\n", a.Rules.ReloadError)
	}
	fmt.Fprintf(w, "store\t%s\t%s\n", a.Store.Kind, a.Store.Error)
}

// Losses is the answer to /v1/accept-loss: the losses in force, or those that were accepted.
type Losses struct{ Losses, Accepted []loss }

// loss is that counts of a durable rule were lost.
type loss struct {
	Rule, Place  string
	Since, Until time.Time
}

// Print prints the losses in columns.
func (a *Losses) Print(w io.Writer) {
	switch {
	case len(a.Losses) > 0:
		fmt.Fprintln(w, "RULE\tLOST AT\tSINCE\tUNTIL")
	case len(a.Accepted) == 0:
		fmt.Fprintln(w, "no durable rule has a loss")
	}
	for _, l := range a.Losses {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", l.Rule, l.Place, l.Since.Format(time.RFC3339), l.Until.Format(time.RFC3339))
	}
	for _, l := range a.Accepted {
		fmt.Fprintln(w, "accepted: "+l.Rule)
	}
}
