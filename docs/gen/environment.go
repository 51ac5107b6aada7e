package main

import (
	"strings"

	"stint/internal/config"
)

// environmentTable says what becomes of the environment of envoyproxy/ratelimit.
func environmentTable() string {
	rows := [][]string{{"variable", "default", "", "what becomes of it"}}
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
