package service

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"stint/app/settings"
	"stint/internal/strictyaml"
	"stint/rule"
	"stint/store/redis/connect"
)

func init() { httpcaddyfile.RegisterGlobalOption(Name, parseOption) }

// own are the settings that only handlers of a configuration use, so that the service runs on when
// they change.
var own = map[string]bool{"trusted-proxies": true, "degraded-header": true}

// known are the settings of the service that have a meaning inside Caddy. The others are about
// listeners, protocols and logs, which Caddy has.
var known = []string{
	"rules", "rules-files", "rules-merge", "catalog", "catalog-db", "catalog-domain", "catalog-fold",
	"records", "records-copy", "audit-for", "unmatched",
	"store", "memory", "store-timeout", "sync-interval", "remember-refusals", "remember-refusals-for",
	"state", "state-interval", "namespace", "namespace-secret-file",
	"gossip", "gossip-join", "gossip-key-file", "gossip-alone",
	"admin-token", "admin-token-file", "admin-access", "admin-host",
	"trusted-proxies", "degraded-header",
	"facts-off", "node", "denials", "denials-every", "denials-per-second", "denials-for", "denials-size",
	"otlp", "otlp-traces", "otlp-sample", "otlp-interval",
}

// Known returns the names of all settings of the app.
func Known() []string { return slices.Clone(known) }

// configure returns the configuration of the service.
func configure(a *App) (settings.Config, error) {
	given := []settings.Given{{Name: "http"}, {Name: "grpc"}, {Name: "admin"}}
	for _, name := range slices.Sorted(maps.Keys(a.Settings)) {
		where := a.place(name)
		if !slices.Contains(known, name) {
			return settings.Config{}, unknownSetting(where, name)
		}
		for _, value := range a.Settings[name] {
			given = append(given, settings.Given{Name: name, Value: value, Where: where})
		}
	}
	config, err := settings.Configure(given, nil)
	config.Embedded, config.DrainDelay = true, 0
	if a.Queue != nil { // its lines have the hashes of keys, and outlive the process
		if config.SharesKeys = connect.IsURL(a.Queue.Storage); !config.SharesKeys {
			config.SecretFile = a.Queue.Storage + ".secret"
		}
	}
	return config, err
}

// unknownSetting returns the error about a word that is no setting.
func unknownSetting(where, name string) error {
	hint := "known are " + strings.Join(known, ", ")
	if near := strictyaml.Nearest(name, known); near != "" {
		hint = "is " + near + " meant?"
	}
	return &settings.Error{Where: where, Problem: fmt.Sprintf("unknown setting %q of stint", name), Hint: hint}
}

// parseOption reads the global option stint of a Caddyfile.
func parseOption(d *caddyfile.Dispenser, before any) (any, error) {
	if before != nil {
		return nil, d.Err("stint is given twice; hint: put all settings into one block")
	}
	a := &App{Settings: map[string][]string{}, Places: map[string]string{}}
	d.Next()
	if d.NextArg() {
		return nil, d.Errf("unexpected %q; hint: write stint { rules FILE }", d.Val())
	}
	for d.NextBlock(0) {
		name := strings.ReplaceAll(d.Val(), "_", "-")
		where := Place(d)
		if is, err := a.parseQueue(d, name); err != nil {
			return nil, err
		} else if is {
			continue
		}
		if !slices.Contains(known, name) {
			return nil, Explain(unknownSetting(where, d.Val()))
		}
		values := d.RemainingArgs()
		if len(values) == 0 {
			if !isFlag(name) {
				return nil, Explain(&settings.Error{Where: where, Problem: name + " has no value", Hint: "write it behind the name, in one line"})
			}
			values = []string{"true"}
		}
		if len(values) > 1 && !isList(name) {
			return nil, Explain(&settings.Error{Where: where, Problem: name + " takes one value", Hint: "put a value with blanks into quotes"})
		}
		if len(a.Settings[name]) > 0 && !isList(name) {
			return nil, Explain(&settings.Error{Where: where, Problem: name + " is given twice", Hint: "the first is at " + a.Places[name]})
		}
		a.Settings[name] = append(a.Settings[name], values...)
		a.Places[name] = where
	}
	return httpcaddyfile.App{Name: Name, Value: caddyconfig.JSON(a, nil)}, nil
}

// Place returns the place of the current token, such as Caddyfile:3.
func Place(d *caddyfile.Dispenser) string { return fmt.Sprintf("%s:%d", d.File(), d.Line()) }

// PlaceOf returns the place of a module for errors: place, or where a configuration in JSON has none, the
// module's path, such as http.handlers.stint.
func PlaceOf(place string, m caddy.Module) string {
	return cmp.Or(place, string(m.CaddyModule().ID))
}

func isFlag(name string) bool { return typeOf(name) == "bool" }
func isList(name string) bool { return typeOf(name) == "list" }

func typeOf(name string) string {
	config := settings.Default()
	return settings.Find(config.Settings(), name).Type()
}

// Fault returns an error in one line, see Explain.
func Fault(place, problem, hint string) error {
	return Explain(&settings.Error{Where: place, Problem: problem, Hint: hint})
}

// Explain returns an error in one line: the place, what is wrong there, a hint, and what stays in
// force.
func Explain(err error) error {
	text := err.Error()
	if rules, ok := errors.AsType[*rule.Errors](err); ok && len(rules.List) > 0 {
		first := rules.List[0]
		text = withHint(fmt.Sprintf("%s: %s", rule.Place(first.File, first.Line), first.Problem), first.Hint)
		if more := len(rules.List) - 1; more > 0 {
			text += fmt.Sprintf("; %d more faults: stint check shows all", more)
		}
	} else if one, ok := errors.AsType[*settings.Error](err); ok {
		text = withHint(one.Error(), one.Hint)
	}
	if inForce() {
		return errors.New(text + "; the running configuration stays in force")
	}
	return errors.New(text + "; nothing is in force")
}

// withHint returns a problem with its hint in one line.
func withHint(problem, hint string) string {
	if hint != "" {
		problem += "; hint: " + hint
	}
	return strings.ReplaceAll(problem, "\n", " ")
}

// inForce reports whether a configuration runs in this process.
func inForce() bool { return caddy.ActiveContext().Context != nil }
