package view

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Records is the answer to /v1/records.
type Records struct {
	Revision uint64
	AgeMS    int64 `json:"age_ms"`
	Writable bool
	Error    string
	Kinds    map[string]int
	Head     struct {
		Number uint64
		Hash   string
	}
	Nodes []struct {
		Name     string
		Revision uint64
		Seen     time.Time
	}
}

// kinds are the kinds of records, in the order in which they are shown.
var kinds = []string{"subject", "override", "ban", "key", "rule", "plan", "grant"}

// Print prints the state of the records.
func (a *Records) Print(w io.Writer) {
	fmt.Fprintf(w, "revision\t%d, %v old\n", a.Revision, time.Duration(a.AgeMS)*time.Millisecond)
	for _, kind := range kinds {
		fmt.Fprintf(w, "%ss\t%d\n", kind, a.Kinds[kind])
	}
	fmt.Fprintf(w, "audit\t%d:%s\n", a.Head.Number, a.Head.Hash)
	for _, n := range a.Nodes {
		fmt.Fprintf(w, "node %s\trevision %d, seen %s\n", n.Name, n.Revision, n.Seen.UTC().Format(time.RFC3339))
	}
	if !a.Writable {
		fmt.Fprintf(w, "no changes\t%s\n", a.Error)
	}
}

// nameOf returns the name of a record for people.
func nameOf(kind, name string) string {
	between := " of " // of an override
	if kind == "grant" {
		between = " "
	}
	return strings.ReplaceAll(name, "\n", between)
}

// Erased is the answer to the erasure of a subject.
type Erased struct{ Records, Entries int }

// Print prints what was erased.
func (a *Erased) Print(w io.Writer) {
	fmt.Fprintf(w, "erased: %d records, and the texts of %d entries of the audit trail\n", a.Records, a.Entries)
}

// Imported is the answer to /v1/records/import.
type Imported struct {
	DryRun                                    bool `json:"dry_run"`
	Revision                                  uint64
	Added, Changed, Deleted, Unchanged, Ended int
	Warnings                                  []string

	Differences []struct {
		Do, Record, Name string
		Before, After    json.RawMessage
	}
}

// Print prints the changes and how many there are.
func (a *Imported) Print(w io.Writer) {
	for _, d := range a.Differences {
		old, next := d.Before, d.After
		if string(old) == "null" {
			old = nil
		}
		if string(next) == "null" {
			next = nil
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", d.Do, d.Record, nameOf(d.Record, d.Name), OrDash(Changes(old, next)))
	}
	if n := a.Added + a.Changed + a.Deleted - len(a.Differences); n > 0 {
		fmt.Fprintf(w, "and %d more\n", n)
	}
	fmt.Fprintf(w, "added %d, changed %d, deleted %d, unchanged %d, left out because they have ended %d\n", a.Added, a.Changed, a.Deleted, a.Unchanged, a.Ended)
	if a.DryRun {
		fmt.Fprintln(w, "dry run: nothing was changed")
	}
}
