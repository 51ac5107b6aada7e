package main

import (
	"strings"

	"stint/internal/config"
)

// environmentTable returns a table of how each variable of envoyproxy/ratelimit is used.
func environmentTable() string {
	rows := [][]string{{"variable", "default", "", "how it is used"}}
	for _, v := range config.EnvoyVariables() {
		what := strings.ReplaceAll(v.Note, "|", "\\|")
		if v.Setting != "" {
			what = "`--" + v.Setting + "`: " + what
		}
		value := v.Default
		if value != "" {
			value = "`" + value + "`"
		}
		rows = append(rows, []string{"`" + v.Name + "`", value, v.Use.String(), what})
	}
	return markdown(rows)
}
