package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"stint/app/settings"
	"stint/internal/config"
)

// printEnv prints which variables of envoyproxy/ratelimit are set, which setting each of them
// makes, and which are not used and why. configuration was read with them.
func printEnv(out io.Writer, environ []string, configuration *settings.Config) {
	report := config.ReadEnvoy(environ, config.EnvoyOptions{AdminToken: configuration.AdminToken != "" || configuration.AdminTokenFile != ""})
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i := range report.Lines {
		l := &report.Lines[i]
		what := l.Variable.Note
		if l.Variable.Setting != "" {
			what = "--" + l.Variable.Setting + ": " + what
		}
		fmt.Fprintf(w, "%s\t%s=%s\t%s\n", l.What(), l.Variable.Name, l.Text, what)
	}
	w.Flush() //nolint:errcheck // like any other output
	if len(report.Lines) == 0 {
		fmt.Fprintln(out, "no variable of envoyproxy/ratelimit is set")
	}
	fmt.Fprintln(out, "\nSettings from these variables and the defaults of envoyproxy/ratelimit:")
	settings := configuration.Settings()
	for _, v := range report.Values {
		fmt.Fprintf(out, "  --%s\n", inForce(settings, v))
	}
}

// inForce returns a setting as a flag with its current value. If another source overrides the
// variable, the text also has the variable's value.
func inForce(all []settings.Setting, v config.EnvoyValue) string {
	shown := func(text string) string {
		if settings.IsStoreURL(text) {
			text = settings.RedactStore(text)
		}
		if strings.ContainsAny(text, " '") || text == "" {
			return fmt.Sprintf("%q", text)
		}
		return text
	}
	for i := range all {
		s := &all[i]
		if s.Name != v.Setting {
			continue
		}
		tried := settings.Default()
		for _, t := range tried.Settings() {
			if t.Name == v.Setting && t.Set(v.Text) == nil && t.String() != s.String() {
				return fmt.Sprintf("%s=%s (%s would make it %s)", s.Name, shown(s.String()), v.Where, shown(t.String()))
			}
		}
		return s.Name + "=" + shown(s.String())
	}
	return v.Setting + "=" + shown(v.Text)
}
