package settings

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"stint/internal/config"
	"stint/internal/strictyaml"
	"stint/internal/text"
)

// A Given is a value for a setting and its place.
type Given struct {
	Name  string // name of the setting
	Value string
	Where string // for errors: "--http", "STINT_HTTP", "stint.yaml:3"
}

// Configure returns the configuration of flags, environment and config file together: a flag
// overrides the environment, that the file, and that the defaults. A list is overridden as a whole.
//
// The variables of OpenTelemetry that name a collector override only the defaults.
//
// The flag "config" or STINT_CONFIG names the file; paths in it are relative to its folder. environ
// has the form of os.Environ. Errors are [*Error], several of them joined.
func Configure(flags []Given, environ []string) (Config, error) {
	c := Default()
	env := environment(&c, environ)
	file := new(File)
	if name := configFile(flags, environ); name != "" {
		data, err := os.ReadFile(name)
		if err != nil {
			return c, &Error{
				Where: name, Problem: "cannot read the config file: " + text.Cause(err),
				Hint: "check the path that --config or STINT_CONFIG gives", Err: err,
			}
		}
		if file, err = ParseFile(name, data); err != nil {
			return c, err
		}
	}
	flags = slices.DeleteFunc(slices.Clone(flags), func(g Given) bool { return g.Name == "config" })
	envoy, err := envoyEnvironment(&c, environ, file.Given, env, flags)
	c.useFile(file)
	return c, errors.Join(c.apply(otelEnvironment(environ)), c.apply(file.Given), err, c.apply(envoy), c.apply(env), c.apply(flags))
}

// useFile sets what only a config file can set.
func (c *Config) useFile(file *File) {
	c.Webhooks = file.Webhooks
	if file.webhooksAt != "" {
		c.where = map[string]string{"webhooks": file.webhooksAt}
	}
}

// configFile returns the name of the config file, "" for none.
func configFile(flags []Given, environ []string) string {
	name := ""
	for _, variable := range environ {
		if value, ok := strings.CutPrefix(variable, "STINT_CONFIG="); ok {
			name = value
		}
	}
	for _, g := range flags {
		if g.Name == "config" {
			name = g.Value
		}
	}
	return name
}

// apply sets the values of one source. The first value of a list replaces that of an earlier
// source, further ones are added.
func (c *Config) apply(source []Given) error {
	if c.where == nil {
		c.where = make(map[string]string)
	}
	settings := c.Settings()
	fresh := make(map[string]bool)
	var errs []error
	for _, g := range source {
		s := Find(settings, g.Name)
		if s == nil {
			errs = append(errs, &Error{Where: g.Where, Problem: fmt.Sprintf("unknown setting %q", g.Name), Hint: "see stint help serve"})
			continue
		}
		if !fresh[g.Name] {
			config.Empty(s.value)
		}
		fresh[g.Name] = true
		c.where[g.Name] = g.Where
		if err := s.Set(g.Value); err != nil {
			errs = append(errs, c.Fault(g.Name, err.Error(), config.HintOf(err)))
		}
	}
	return errors.Join(errs...)
}

// Find returns the setting with that name, nil if there is none.
func Find(settings []Setting, name string) *Setting {
	for i := range settings {
		if settings[i].Name == name {
			return &settings[i]
		}
	}
	return nil
}

// environment returns the settings in an environment. An empty variable closes a listener or
// empties a text or a list; for any other kind it is ignored.
//
// An unknown STINT_ variable is no error, because orchestrators set their own (STINT_SERVICE_HOST);
// one that is similar to a setting gets a warning.
func environment(c *Config, environ []string) []Given {
	settings := c.Settings()
	names := []string{"config"}
	byName := make(map[string]*Setting)
	for i := range settings {
		names = append(names, settings[i].Name)
		byName[settings[i].Env()] = &settings[i]
	}
	var given []Given
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "STINT_") || name == "STINT_CONFIG" {
			continue
		}
		s := byName[name]
		if s == nil {
			if near := strictyaml.Nearest(strings.TrimPrefix(name, "STINT_"), names); near != "" {
				c.Warnings = append(c.Warnings, fmt.Sprintf("%s is no setting, is %s meant?", name, (&Setting{Name: near}).Env()))
			}
			continue
		}
		if value == "" && s.Type() != "list" && s.Type() != "string" {
			continue
		}
		given = append(given, Given{s.Name, value, name})
	}
	return given
}
