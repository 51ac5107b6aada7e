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
	"stint/cmd/stint/cli"
	"stint/cmd/stint/view"
	"stint/internal/system"
	"stint/rule"
	"stint/rule/rulefile"
)

const checkText = `Checks files and folders of rules, all together as the service would load them. Prints each
fault with its place and a hint, then warnings and notes. If the rules have no faults, check
prints how much may pass beyond limits with on_store_failure: local, and runs the tests: files
*_test.yaml among the arguments or in a folder, and NAME_test.yaml next to NAME.yaml. A test file
given alone is run against the rules next to it. Files of rules per API (.csv, .jsonl, and those
of ratelimiter4j) are checked together too, and check prints their hash.

With --store, also reports how much may pass when Redis servers are added or removed.
With --against, also reports which limits change for which keys, compared with older rules.

Flags that stint serve has too have the same meaning. If they are missing, check reads the
environment (STINT_STORE for --store) and the config file, as stint serve does.

The exit status is 1 if there is a fault or a test fails, and 99 if there is something that
--fail-on names. docs/check.md lists all findings.

With --env it reports how each variable of envoyproxy/ratelimit is used. The exit status is 1 if
a value cannot be used. Rule files are optional then.

  stint check rules/
  stint check --fail-on warning --format json rules/
  stint check --against /etc/stint/rules --fail-on looser,anew rules/
  stint check --print rules.yaml
  stint check shop.csv
  stint check --store redis://a,b,c rules.yaml`

func checkCommand() cli.Command {
	return cli.Command{
		Name:    "check",
		Args:    "[flags] FILE...",
		Summary: "check rule files and run their tests",
		Text:    checkText,
		Run:     check,
		Flags:   func() []cli.FlagGroup { return cli.OneGroup(checkFlags(new(checkOptions))) },
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

	records string    // export of records; "": none
	export  *exported // what is in it

	given  []settings.Given // flags that the service has too
	config settings.Config  // settings of the service that matter for rules
}

// shared are the settings of the service that check has too. The value replaces the usage text of
// the flag, unless it is empty.
var shared = map[string]string{
	"rules-files": "", "rules-merge": "", "catalog-domain": "", "catalog-fold": "",
	"store":         "`URL` of the store of a service, redis://HOST,HOST: report how much may pass when its servers change",
	"sync-interval": "`TIME` between two exchanges in the service; for how much eventual and gossip limits let pass",
}

func checkFlags(o *checkOptions) *pflag.FlagSet {
	flags := pflag.NewFlagSet("check", pflag.ContinueOnError)
	flags.BoolVar(&o.env, "env", false, "report which variables of envoyproxy/ratelimit are used, and why others are not")
	flags.BoolVar(&o.dump, "print", false, "print the rules as stint understands them")
	flags.BoolVar(&o.modes, "modes", false, "report for strict limits too how nodes agree on them, and how much passes while the store is away; and for each limit what a restart, a failover and a flush of the store cost and admit")
	flags.StringVar(&o.format, "format", "text", "`FORMAT` of the report: text or json")
	flags.StringSliceVar(&o.failOn, "fail-on", nil, "`WHAT` makes the exit status 99: warning, note, the id of a finding, change, or the effect of a change: looser, stricter, anew, other, same; several with commas")
	flags.StringArrayVar(&o.old, "against", nil, "`OLD` files or folders of rules: report what changes for which keys when the new rules replace them")
	flags.StringVar(&o.records, "records", "", "`FILE` that stint records export wrote: use its plans, check its grants, and report how many subjects a change of plans touches")
	flags.StringSliceVar(&o.ignore, "ignore", nil, "`IDS` of findings to leave out, with commas")
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

// configure reads the settings of the service from flags and environ. Without --env it ignores
// variables of other settings.
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

func check(ctx context.Context, s cli.Streams, args []string) error {
	var o checkOptions
	flags := checkFlags(&o)
	if err := cli.Parse(flags, args); err != nil {
		return err
	}
	if flags.NArg() == 0 && !o.env {
		return cli.Usage("check needs a file", "name files or folders of rules, for example stint check rules.yaml")
	}
	err := o.configure(os.Environ())
	if o.env {
		out := s.Out
		if o.format == "json" {
			out = s.Err // standard output has only the report
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
	if o.format == "json" {
		return r.printJSON(s.Out, r.read(ctx, flags.Args()))
	}
	done := view.Working(s.Err, r.step.String)
	err = r.read(ctx, flags.Args())
	done()
	return r.print(s, err)
}

// load reads files and folders of rules like the service.
func (o *checkOptions) load(names []string) (*rule.Table, error) {
	config := o.config
	config.Rules, config.Demo = names, ""
	if config.State == "" {
		config.State = "-" // only a service can lack the state file that a durable rule needs
	}
	if o.export != nil {
		return config.LoadRules(o.export.plans...)
	}
	return config.LoadRules()
}

// found has the files and folders that the arguments of check name.
type found struct {
	rules  []string // files and folders
	tests  []rulefile.Source
	finder system.FileFinder // test files
}

// findRules sorts files and folders into rules and tests. A name that does not exist counts as
// rules, so that loading them reports it.
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

// addTests adds a test file, or the test files in a folder and its subfolders. It ignores folders
// that it cannot read, because loading the rules reports them.
func (f *found) addTests(path string) error {
	files, _, _ := f.finder.Find(path)
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return cli.Refuse(fmt.Sprintf("%s: cannot read the tests: %v", name, err), "check the path and its permissions")
		}
		f.tests = append(f.tests, rulefile.Source{Name: name, Data: data})
	}
	return nil
}
