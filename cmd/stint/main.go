// Command stint limits rates: it is a service, and a tool for its rules.
//
//	stint serve     run the service
//	stint check     check rule files and run their tests
//	stint replay    show what a limit would have done to an access log
//	stint plan      show whom a change of rules would newly deny or free
//	stint bench     measure decisions, and put load on a service
//	stint inspect   show how much a key has used
//	stint why       explain what a client would get, and what would change it
//	stint top       show live which rules deny, and whom
//	stint usage     show who used how much, by periods
//	stint advise    show what is wrong with the rules, and what mends it
//	stint reset     reset the counts of a key
//	stint limits    show the current limits
//	stint health    report whether a service is ready
//	stint ban       deny all requests of a client
//	stint unban     end a ban now
//	stint bans      list the bans
//	stint override  give a client other numbers for a rule
//	stint overrides list the overrides
//	stint keys      make, list and revoke API keys of clients
//	stint plans     make, list and delete plans, and give them to clients
//	stint audit     show and verify who changed what
//	stint records   import, export and erase records
//	stint webhooks  list, retry and test what receivers of events get
//	stint token     make a token for the admin API
//	stint completion
//	                print the completion of a shell
//	stint man       write the manual pages
//	stint version   print the version
//	stint help      explain a command
//
// Run as ratelimit and without arguments, it is stint serve --envoy-env, so that its image can
// replace that of envoyproxy/ratelimit.
//
// docs/service.md lists its exit statuses. Each error is one line with the place and the problem,
// followed by a line that begins with "hint:" and proposes what to do.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"

	"stint/cmd/stint/bench"
	"stint/cmd/stint/cli"
	"stint/cmd/stint/manual"
	"stint/cmd/stint/view"
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

// exitStatuses are the exit statuses as help, the manual pages and docs/service.md list them.
var exitStatuses = []manual.Status{
	{Code: exitOK, Meaning: "success; also after SIGINT or SIGTERM ended serve"},
	{Code: exitRefused, Meaning: "an input was refused or could not be used, or a fault was found"},
	{Code: exitUsage, Meaning: "wrong flags or arguments"},
	{Code: exitThreshold, Meaning: "a threshold was met (--fail-if, --fail-on), or bench load saw a limit exceeded"},
	{Code: exitInterrupted, Meaning: "interrupted by SIGINT"},
}

func main() {
	s := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	args := arguments(os.Args)
	if !interruptible(args) {
		interrupted := make(chan os.Signal, 1)
		signal.Notify(interrupted, os.Interrupt)
		go func() {
			<-interrupted
			view.Clear(s.Err)
			os.Exit(exitInterrupted)
		}()
	}
	os.Exit(run(context.Background(), s, args))
}

// interruptible reports whether a command does more after an interrupt than end: serve drains, top prints its last screen, and
// the others what they know so far.
func interruptible(args []string) bool {
	return len(args) > 0 && slices.Contains([]string{"serve", "top", "replay", "plan", "bench"}, args[0])
}

// envoyName is the name of the program in deployments of envoyproxy/ratelimit, which start it
// without arguments.
const envoyName = "ratelimit"

// arguments returns the arguments after the name of the program. If the program runs as envoyName
// and has no arguments, it returns those that replace envoyproxy/ratelimit.
func arguments(args []string) []string {
	if len(args) == 1 && filepath.Base(args[0]) == envoyName {
		return []string{"serve", "--envoy-env"}
	}
	return args[1:]
}

// commands returns the commands in the order in which help lists them.
func commands() []cli.Command {
	all := []cli.Command{serveCommand(), checkCommand(), replayCommand(), planCommand(), bench.Command()}
	return append(append(all, cli.AdminCommands()...), tokenCommand(), completionCommand(), manCommand(), versionCommand())
}

// run runs the command and returns the exit status.
func run(ctx context.Context, s cli.Streams, args []string) int {
	if len(args) == 0 {
		printHelp(s.Err)
		return exitUsage
	}
	name, rest := args[0], args[1:]
	switch name {
	case "help", "-h", "--help":
		return report(view.Fit(s.Err), help(s.Out, rest))
	case "-v", "--version":
		name = "version"
	}
	for _, c := range commands() {
		if c.Name != name {
			continue
		}
		if wantsHelp(rest) {
			printCommandHelp(s.Out, c)
			return exitOK
		}
		return report(view.Fit(s.Err), c.Run(ctx, s, rest))
	}
	return report(view.Fit(s.Err), unknownCommand(name))
}

// wantsHelp reports whether the flags contain --help.
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
		names = append(names, c.Name)
	}
	hint := "see stint help"
	if near := strictyaml.Nearest(name, append(names, "help")); near != "" {
		hint = "is stint " + near + " meant? See stint help"
	}
	return cli.Usage(fmt.Sprintf("unknown command %q", name), hint)
}
