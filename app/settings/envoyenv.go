package settings

import (
	"errors"
	"fmt"

	"stint/internal/config"
)

// envoyEnvironment returns the settings in the variables of envoyproxy/ratelimit, if sources, of
// which the last wins, switch that on.
func envoyEnvironment(c *Config, environ []string, sources ...[]Given) ([]Given, error) {
	tried := Default()
	for _, source := range sources {
		_ = tried.apply(source) // Configure reports the errors when it applies the source
	}
	if !tried.EnvoyEnv {
		return nil, nil
	}
	report := config.ReadEnvoy(environ, config.EnvoyOptions{AdminToken: tried.AdminToken != "" || tried.AdminTokenFile != ""})
	given := make([]Given, 0, len(report.Values))
	for _, v := range report.Values {
		given = append(given, Given{v.Setting, v.Text, v.Where})
	}
	errs := make([]error, 0, len(report.Faults))
	for _, f := range report.Faults {
		errs = append(errs, &Error{Where: f.Name, Problem: f.Problem, Hint: f.Hint})
	}
	for _, l := range report.Lines {
		if l.Variable.Use == config.Ignored && l.Text != l.Variable.Default {
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s=%s is ignored: %s", l.Variable.Name, l.Text, l.Variable.Note))
		}
	}
	return given, errors.Join(errs...)
}
