// Command stint limits rates: as a service, and as a tool around its rules.
//
//	stint serve     run the service
//	stint check     check rule files and run their tests
//	stint replay    show what a limit would have done to an access log
//	stint bench     measure decisions on this machine
//	stint inspect   show what a key has used
//	stint reset     forget what a key has used
//	stint limits    show the limits in force
//	stint health    say whether a service is ready
//	stint version   print the version
//	stint help      explain a command
//
// Called ratelimit and without arguments it is stint serve --envoy-env, so that an image
// can stand where that of envoyproxy/ratelimit stood.
//
// It ends with status 0 where all went well, 1 where something it was given was
// refused or could not be used, 2 where it was called in a way it does not know, 99
// where a threshold (--fail-if, --fail-on) was met, and 130 where it was interrupted;
// serve ends with 0 then. Each error is one line that says where and what, followed by a line that
// begins with "hint:" and says what to do.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"stint/internal/strictyaml"
)

// The exit statuses.
const (
	exitOK          = 0
	exitRefused     = 1
	exitUsage       = 2
	exitThreshold   = 99
	exitInterrupted = 130
)

func main() {
	s := streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	args := arguments(os.Args)
	if len(args) == 0 || args[0] != "serve" { // serve drains at an interrupt
		interrupted := make(chan os.Signal, 1)
		signal.Notify(interrupted, os.Interrupt)
		go func() {
			<-interrupted
			os.Exit(exitInterrupted)
		}()
	}
	os.Exit(run(context.Background(), s, args))
}

// imposed is the name under which deployments of envoyproxy/ratelimit start it, without
// any argument.
const imposed = "ratelimit"

// arguments returns those behind the name of the program. Called by that other name, and
// without any, it serves as what it stands in for.
func arguments(args []string) []string {
	if len(args) == 1 && filepath.Base(args[0]) == imposed {
		return []string{"serve", "--envoy-env"}
	}
	return args[1:]
}

// streams are where a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// A command is one word after stint.
type command struct {
	name    string
	args    string // what follows it, for help
	summary string // one line
	text    string // what help says beside the flags
	run     func(ctx context.Context, s streams, args []string) error
	flags   func() string // the flags, for help; nil: none
}

// commands are in the order in which help lists them.
func commands() []command {
	all := []command{serveCommand(), checkCommand(), replayCommand(), benchCommand()}
	return append(append(all, adminCommands()...), versionCommand())
}

// run finds the command and returns the exit status.
func run(ctx context.Context, s streams, args []string) int {
	if len(args) == 0 {
		printHelp(s.err)
		return exitUsage
	}
	name, rest := args[0], args[1:]
	switch name {
	case "help", "-h", "--help":
		return report(s.err, help(s.out, rest))
	case "-v", "--version":
		name = "version"
	}
	for _, c := range commands() {
		if c.name != name {
			continue
		}
		if wantsHelp(rest) {
			printCommandHelp(s.out, c)
			return exitOK
		}
		return report(s.err, c.run(ctx, s, rest))
	}
	return report(s.err, unknownCommand(name))
}

// wantsHelp tells whether --help stands among the flags.
func wantsHelp(args []string) bool {
	for _, a := range args {
		switch a {
		case "--":
			return false
		case "-h", "--help":
			return true
		}
	}
	return false
}

func unknownCommand(name string) error {
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	hint := "see stint help"
	if near := strictyaml.Nearest(name, append(names, "help")); near != "" {
		hint = "is stint " + near + " meant? See stint help"
	}
	return &usageError{fmt.Sprintf("unknown command %q", name), hint}
}
