package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"stint/app"
	"stint/app/settings"
	"stint/cmd/stint/cli"
	"stint/internal/system"
)

const serveText = `Runs the service until SIGTERM or SIGINT. It first finishes the calls in progress; a second
signal ends it at once. SIGHUP, or a change of the rule files, reloads the rules.

Each flag is also an environment variable (STINT_DRAIN_DELAY for --drain-delay) and a key of
the config file (drain-delay: 5s). A flag overrides the environment, the environment overrides
the config file, and the config file overrides the default. An empty ADDR disables a listener.`

func serveCommand() cli.Command {
	return cli.Command{
		Name:    "serve",
		Args:    "[flags]",
		Summary: "run the service",
		Text:    serveText,
		Run:     serve,
		Flags:   serveGroups,
	}
}

// serveFlags returns the flags of serve. Their values are appended to given.
func serveFlags(given *[]settings.Given) *pflag.FlagSet {
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	flags.SortFlags = false
	config := settings.Default() // has the defaults, and checks values
	flags.Var(&givenFlag{name: "config", given: given}, "config", "`FILE` with settings, named like the flags")
	settings := config.Settings()
	for i := range settings {
		addSetting(flags, &settings[i], given)
	}
	return flags
}

// serveGroups returns the flags of serve in groups.
func serveGroups() []cli.FlagGroup {
	all := serveFlags(new([]settings.Given))
	var groups []cli.FlagGroup
	add := func(title string, names ...string) {
		some := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		some.SortFlags = false
		for _, name := range names {
			some.AddFlag(all.Lookup(name))
		}
		groups = append(groups, cli.FlagGroup{Title: title, Flags: some})
	}
	add("Settings from a file", "config")
	config := settings.Default()
	for _, g := range config.Groups() {
		add(g.Title, g.Names...)
	}
	return groups
}

// addSetting adds the flag of a setting. Its value is appended to given.
func addSetting(flags *pflag.FlagSet, s *settings.Setting, given *[]settings.Given) {
	f := flags.VarPF(&givenFlag{name: s.Name, setting: s, given: given}, s.Name, "", s.Usage)
	if s.Type() == "bool" {
		f.NoOptDefVal = "true"
	}
}

// givenFlag is a flag that checks its value and appends it to given.
type givenFlag struct {
	name    string
	setting *settings.Setting // nil for --config, which is no setting
	given   *[]settings.Given
}

// Type returns the name of the value in help.
func (f *givenFlag) Type() string {
	if f.setting == nil {
		return "string"
	}
	return f.setting.Type()
}

// String returns the default.
func (f *givenFlag) String() string {
	if f.setting == nil {
		return ""
	}
	return f.setting.String()
}

// Set checks a value and appends it.
func (f *givenFlag) Set(value string) error {
	g := settings.Given{Name: f.name, Value: value, Where: "--" + f.name}
	if f.setting != nil {
		if err := f.setting.Try(value, g.Where); err != nil {
			return err
		}
	}
	*f.given = append(*f.given, g)
	return nil
}

func serve(ctx context.Context, s cli.Streams, args []string) error {
	var given []settings.Given
	flags := serveFlags(&given)
	if err := cli.Parse(flags, args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return cli.Usage("serve takes flags only, not "+flags.Arg(0), "write --rules "+flags.Arg(0)+" if that is a file of rules")
	}
	config, err := settings.Configure(given, os.Environ())
	if err != nil {
		return err
	}
	config.Output = s.Err
	config.Notify = system.NewNotifier()
	if config.Listeners, err = system.InheritedListeners(); err != nil {
		return cli.Refuse("cannot use the sockets of the service manager: "+err.Error(), "let the socket unit have ListenStream= only")
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // a second signal ends the process at once
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	service, err := app.New(config)
	if err != nil {
		return err
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangup:
				// Reload has logged the error, and the old rules stay.
				_ = service.Reload("SIGHUP")
			}
		}
	}()
	if err := service.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
