package view

import (
	"fmt"
	"io"
	"time"
)

// Denials is the answer of GET /v1/why: what the log of denials has about a request.
type Denials struct {
	Denials []struct {
		At                        time.Time
		Domain, Rule, Key, Reason string
		Limit                     int64
		RetryAfter                time.Duration `json:"retry_after_ns"`
		Degraded                  bool
		Config                    *Limit
	}
}

// Print prints the denials in columns.
func (a *Denials) Print(w io.Writer) {
	fmt.Fprintln(w, "AT\tDOMAIN\tRULE\tREASON\tRETRY\tKEY\tLIMIT NOW")
	for _, d := range a.Denials {
		retry, limit := d.RetryAfter.String(), "-"
		if d.RetryAfter == 1<<63-1 {
			retry = "never"
		}
		if d.Config != nil {
			limit = d.Config.String()
		}
		if d.Degraded {
			d.Reason += " (the store did not answer)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", d.At.UTC().Format(time.RFC3339), d.Domain, OrDash(d.Rule), d.Reason, retry, d.Key, limit)
	}
}
