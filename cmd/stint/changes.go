package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"stint/rule/audit"
)

// printChanges prints what changes for whom; nothing without --against.
func (r *checkReport) printChanges(out io.Writer) {
	for _, c := range r.changes {
		who := c.Domain
		if c.Who != "" {
			who += ": " + c.Who
		}
		if who != "" {
			who += ": "
		}
		text := c.Text
		if c.Why != "" {
			text += ": " + c.Why
		}
		fmt.Fprintf(out, "%s: %s: %s%s\n", placeOf(c.File, c.Line), effects(c.Effects), who, text)
	}
	if r.compared && len(r.changes) == 0 {
		fmt.Fprintln(out, "nothing changes for anybody")
	}
}

func effects(all []audit.Effect) string {
	words := make([]string, len(all))
	for i, e := range all {
		words[i] = string(e)
	}
	return strings.Join(words, ", ")
}

// failsByChange says whether --fail-on names a change; "change" names all but the same limit in
// other words.
func (r *checkReport) failsByChange() bool {
	return slices.ContainsFunc(r.changes, func(c audit.Change) bool {
		return slices.ContainsFunc(c.Effects, func(e audit.Effect) bool {
			return slices.Contains(r.options.failOn, string(e)) || e != audit.Same && slices.Contains(r.options.failOn, "change")
		})
	})
}
