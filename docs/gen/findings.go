package main

import "stint/rule/audit"

// findingsTable returns a row for each kind of finding of stint check.
func findingsTable() string {
	rows := [][]string{{"id", "", "what was found", "what to do"}}
	for _, k := range audit.Kinds {
		rows = append(rows, []string{"`" + k.ID + "`", k.Severity.String(), k.Means, k.Do})
	}
	return markdown(rows)
}
