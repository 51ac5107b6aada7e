package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"stint/rule/audit"
)

// printChanges prints the changes since the rules of --against; nothing without that flag.
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
		fmt.Fprintln(out, "no limit changes")
	}
}

func effects(all []audit.Effect) string {
	words := make([]string, len(all))
	for i, e := range all {
		words[i] = string(e)
	}
	return strings.Join(words, ", ")
}

// failsByChange reports whether --fail-on names one of the changes. "change" means any of them,
// except a limit that is only written differently.
func (r *checkReport) failsByChange() bool {
	return slices.ContainsFunc(r.changes, func(c audit.Change) bool {
		return slices.ContainsFunc(c.Effects, func(e audit.Effect) bool {
			return slices.Contains(r.options.failOn, string(e)) || e != audit.Same && slices.Contains(r.options.failOn, "change")
		})
	})
}
