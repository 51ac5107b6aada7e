package view

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Audit is the answer to /v1/audit.
type Audit struct {
	Entries []entry
	Next    *string
}

// Print prints the entries in columns.
func (a *Audit) Print(w io.Writer) {
	if len(a.Entries) == 0 {
		fmt.Fprintln(w, "none")
	}
	printEntries(w, a.Entries)
	if a.Next != nil {
		fmt.Fprintf(w, "and older ones: --before %s\n", *a.Next)
	}
}

// Kept is the answer to /v1/subjects/NAME/export.
type Kept struct {
	Records []json.RawMessage
	Audit   []entry
}

// Print prints all that is kept of a subject.
func (a *Kept) Print(w io.Writer, subject string) {
	if len(a.Records)+len(a.Audit) == 0 {
		fmt.Fprintln(w, "nothing is kept of "+subject)
		return
	}
	for _, r := range a.Records {
		fields := FieldsOf(r)
		fmt.Fprintf(w, "%s\trevision %s\t%s\n", fields["record"], fields["revision"], strings.TrimSpace(string(r)))
	}
	printEntries(w, a.Audit)
}

// entry is an entry of the audit trail.
type entry struct {
	Number                                 uint64
	Time, Until                            time.Time
	Action, Kind, Actor, From, Object, Why string
	Before, After                          json.RawMessage
	Erased                                 bool
}

// printEntries prints entries with their columns; nothing if there are none.
func printEntries(w io.Writer, entries []entry) {
	if len(entries) > 0 {
		fmt.Fprintln(w, "NUMBER\tTIME\tWHO\tFROM\tACTION\tWHAT\tCHANGE\tUNTIL\tWHY")
	}
	for i := range entries {
		e := &entries[i]
		what := e.Kind + " " + nameOf(e.Kind, e.Object)
		if e.Erased {
			what = e.Kind + " (erased)"
		}
		until := "-"
		if !e.Until.IsZero() {
			until = e.Until.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.Number, e.Time.UTC().Format(time.RFC3339), OrDash(e.Actor), OrDash(e.From),
			e.Action, what, OrDash(Changes(e.Before, e.After)), until, OrDash(e.Why))
	}
}
