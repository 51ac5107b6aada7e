package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"stint/app/settings"
	"stint/internal/system"
	"stint/rule"
	"stint/rule/rulefile"
)

const checkText = `Checks files and folders of rules, all together as the service would load them, and
prints each fault with its place and a hint, then warnings and notes. If the rules are good it
says what may pass beyond limits with on_store_failure: local, and runs their tests: the
files *_test.yaml that are given or stand in a given folder, and NAME_test.yaml beside a
NAME.yaml that is given. A test that is given alone is run against the file that it stands
beside. Files of rules per API (.csv, .jsonl, and those of
ratelimiter4j) are checked all together as well, and their hash is printed. Told where a
service counts, it says what may pass when the servers change. With --against it says what
the rules change for whom, in place of others.

Flags that stint serve has too mean what they mean there. Where they are not given, the
environment (--store is STINT_STORE) and the config file count, as they do there.

The status is 1 where there is a fault or a test fails, and 99 where there is something
that --fail-on names. docs/check.md lists all that may be found.

With --env it says what becomes of the environment of envoyproxy/ratelimit, and the
status is 1 where a value cannot be used; files are not needed then.

  stint check rules/
  stint check --fail-on warning --format json rules/
  stint check --against /etc/stint/rules --fail-on looser,anew rules/
  stint check --print rules.yaml
  stint check shop.csv
  stint check --store redis://a,b,c rules.yaml`

func checkCommand() command {
	return command{
		name:    "check",
		args:    "[flags] FILE...",
		summary: "check rule files and run their tests",
		text:    checkText,
		run:     check,
		flags:   func() string { return checkFlags(new(checkOptions)).FlagUsagesWrapped(helpWidth) },
	}
}

// checkOptions are the flags of check.
type checkOptions struct {
	env    bool
	dump   bool
	modes  bool
	format string
	failOn []string
	ignore []string
	old    []string

	given  []settings.Given // to flags of the service
	config settings.Config  // of the service, as far as rules are judged by it
}

// shared are the settings of the service that say how it reads rules, and what these let pass.
// A word of its own says what one is to check.
var shared = map[string]string{
	"rules-files": "", "rules-merge": "", "catalog-domain": "", "catalog-fold": "",
	"store":         "`WHERE` a service counts, redis://HOST,HOST: say what may pass when its servers change",
	"sync-interval": "`TIME` between two exchanges, as the service has it: for what eventual and gossip let pass",
}

func checkFlags(o *checkOptions) *pflag.FlagSet {
	flags := pflag.NewFlagSet("check", pflag.ContinueOnError)
	flags.BoolVar(&o.env, "env", false, "say which variables of envoyproxy/ratelimit are used, and which are not and why")
	flags.BoolVar(&o.dump, "print", false, "print the rules as they were understood")
	flags.BoolVar(&o.modes, "modes", false, "say of strict limits too how the nodes agree on them, and what passes while the store is away")
	flags.StringVar(&o.format, "format", "text", "`FORMAT` of what is found: text or json")
	flags.StringSliceVar(&o.failOn, "fail-on", nil, "`WHAT` makes the status 99: warning, note, the id of a finding, change, or an effect of one: looser, stricter, anew, other, same; several with commas")
	flags.StringArrayVar(&o.old, "against", nil, "`OLD` files or folders of rules: say what changes for whom when these take their place")
	flags.StringSliceVar(&o.ignore, "ignore", nil, "`IDS` of findings that are left out, with commas")
	flags.Var(&givenFlag{name: "config", given: &o.given}, "config", "`FILE` with settings of the service")
	tried := settings.Default()
	for _, s := range tried.Settings() {
		if usage, is := shared[s.Name]; is {
			s.Usage = cmp.Or(usage, s.Usage)
			addSetting(flags, &s, &o.given)
		}
	}
	return flags
}

// configure finds out how the service reads rules. What an environment says of other settings
// is left alone, but for --env.
func (o *checkOptions) configure(environ []string) (err error) {
	if o.env {
		o.given = append(o.given, settings.Given{Name: "envoy-env", Value: "true", Where: "--env"})
	} else {
		known := []string{"STINT_CONFIG", "STINT_ENVOY_ENV"}
		for _, s := range o.config.Settings() {
			if _, is := shared[s.Name]; is {
				known = append(known, s.Env())
			}
		}
		environ = slices.DeleteFunc(slices.Clone(environ), func(variable string) bool {
			name, _, _ := strings.Cut(variable, "=")
			return strings.HasPrefix(name, "STINT_") && !slices.Contains(known, name)
		})
	}
	o.config, err = settings.Configure(o.given, environ)
	return err
}

func check(ctx context.Context, s streams, args []string) error {
	var o checkOptions
	flags := checkFlags(&o)
	if err := parse(flags, args); err != nil {
		return err
	}
	if flags.NArg() == 0 && !o.env {
		return &usageError{"check needs a file", "name files or folders of rules, such as stint check rules.yaml"}
	}
	err := o.configure(os.Environ())
	if o.env {
		out := s.out
		if o.format == "json" {
			out = s.err // what is found is all that stands there
		}
		printEnv(out, os.Environ(), &o.config)
	}
	if err != nil || flags.NArg() == 0 {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	r := checkReport{options: &o}
	err = r.read(ctx, flags.Args())
	if o.format == "json" {
		return r.printJSON(s.out, err)
	}
	return r.print(s, err)
}

// load reads files and folders of rules as the service would.
func (o *checkOptions) load(names []string) (*rule.Table, error) {
	config := o.config
	config.Rules, config.Demo = names, ""
	return config.LoadRules()
}

// found is what the arguments of check name.
type found struct {
	rules  []string // files and folders
	tests  []rulefile.Source
	finder system.FileFinder // of tests
}

// findRules sorts files and folders into rules and tests. What is not there stays
// among the rules, where loading says so.
func findRules(names []string) (*found, error) {
	f := &found{finder: system.FileFinder{Keep: func(path string) bool {
		return strings.HasSuffix(path, "_test.yaml") || strings.HasSuffix(path, "_test.yml")
	}}}
	given := make(map[string]bool)
	for _, name := range names {
		given[filepath.Clean(name)] = true
	}
	var errs []error
	for _, name := range names {
		stem, isTest := strings.CutSuffix(strings.TrimSuffix(name, filepath.Ext(name)), "_test")
		info, err := os.Stat(name)
		switch {
		case isTest && err == nil && !info.IsDir():
			errs = append(errs, f.addTests(name))
			if beside := stem + filepath.Ext(name); len(names) == 1 && !given[beside] {
				f.rules = append(f.rules, beside)
			}
		case err == nil && info.IsDir():
			f.rules = append(f.rules, name)
			errs = append(errs, f.addTests(name))
		default:
			f.rules = append(f.rules, name)
			beside := strings.TrimSuffix(name, filepath.Ext(name)) + "_test" + filepath.Ext(name)
			if _, err := os.Stat(beside); err == nil {
				errs = append(errs, f.addTests(beside))
			}
		}
	}
	return f, errors.Join(errs...)
}

// addTests takes a file of tests, or those of all folders below a folder that rules are
// read from. What it cannot find there, loading the rules cannot either, and says so.
func (f *found) addTests(path string) error {
	files, _, _ := f.finder.Find(path)
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return &refusal{fmt.Sprintf("%s: cannot read the tests: %v", name, err), "check the path and its permissions"}
		}
		f.tests = append(f.tests, rulefile.Source{Name: name, Data: data})
	}
	return nil
}
