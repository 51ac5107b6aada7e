package view

import (
	"fmt"
	"io"
	"time"
)

// Receivers is the answer to /v1/webhooks.
type Receivers struct{ Receivers []receiver }

// receiver is a receiver of webhooks.
type receiver struct {
	Name, To                   string
	Configured                 bool
	Waiting, Failed, Delivered int
	Disabled, Paused           *time.Time
}

// state returns what a receiver does, for people.
func (r *receiver) state() string {
	switch {
	case !r.Configured:
		return "not configured"
	case r.Disabled != nil:
		return "disabled by 410 since " + r.Disabled.Format(time.RFC3339)
	case r.Paused != nil:
		return "paused until " + r.Paused.Format(time.RFC3339)
	}
	return "active"
}

// Print prints the receivers in columns.
func (a *Receivers) Print(w io.Writer) {
	fmt.Fprintln(w, "RECEIVER\tTO\tSTATE\tWAITING\tFAILED\tDELIVERED")
	for i := range a.Receivers {
		r := &a.Receivers[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\n", r.Name, OrDash(r.To), r.state(), r.Waiting, r.Failed, r.Delivered)
	}
}

// Deliveries is the answer to /v1/webhooks/deliveries.
type Deliveries struct {
	Deliveries []struct {
		Receiver, ID, Rule, Subject string
		Threshold, Tries            int
		Tried, Due                  *time.Time
		Problem                     string
	}
}

// Print prints the deliveries in columns.
func (a *Deliveries) Print(w io.Writer) {
	if len(a.Deliveries) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	fmt.Fprintln(w, "RECEIVER\tEVENT\tRULE\tSUBJECT\tTHRESHOLD\tTRIES\tLAST TRY\tNEXT TRY\tERROR")
	for _, d := range a.Deliveries {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d%%\t%d\t%s\t%s\t%s\n", d.Receiver, d.ID, d.Rule, d.Subject, d.Threshold, d.Tries,
			timeOrDash(d.Tried), timeOrDash(d.Due), OrDash(d.Problem))
	}
}

// timeOrDash returns a time for people, and a dash for none.
func timeOrDash(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Format(time.RFC3339)
}
