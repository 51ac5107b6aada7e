// Package bench has the commands of stint that measure: bench decide for decisions on this machine, and bench load, which puts
// load on a service.
package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"stint/cmd/stint/cli"
	"stint/internal/strictyaml"
)

// ErrExceeded ends a command with status 99: more passed than the limit allows. The report has already said so.
var ErrExceeded = errors.New("a limit was exceeded")

const helpText = `bench decide measures decisions on this machine, by default of a store in the memory of this
process. With --url it sends POST /v1/check to a service on this machine, with the limit in each
request, as fast as it can. Few keys are used often and many rarely (Zipf 1.1).

  stint bench decide
  stint bench decide --url http://127.0.0.1:8080 --workers 16

bench load sends requests to TARGET and reports how long the answers took. With --rate it is an
open loop: requests start at their times, whatever the service does, and their times count from
then. Without it is a closed loop of --workers that wait for their answers, and the times are also
corrected for the requests that were not sent meanwhile. TARGET is the URL of a service, and
selects the protocol unless --protocol does:

  http://127.0.0.1:8080    check: POST /v1/check; with --protocol http, this URL as it is
  grpc://127.0.0.1:8081    rls: Envoy's rate limit service
  redis://127.0.0.1:6380   stint.check: STINT.CHECK; or with --protocol, cl.throttle: CL.THROTTLE

https, grpcs and rediss are encrypted. In --descriptor, --header, --body and TARGET (of http),
{key} is replaced by the name of a key. With --limit, it checks whether more requests of a key
passed than may, and ends with status 99 if so. It never accuses wrongly: a request counts only
where it was sent and answered inside the time. Only services on this machine are called, unless
--i-own-this-target is given. Ctrl-C prints what is known, and ends with status 130.

  stint bench load --limit 100/s --duration 5s http://127.0.0.1:8080
  stint bench load --rate 2000 --domain api --descriptor user={key} --html load.html \
    grpc://127.0.0.1:8081
  stint bench load --protocol cl.throttle --limit 100/s --burst 20 redis://127.0.0.1:6380
  stint bench load --protocol http --limit 5/min --algorithm fixed_window http://127.0.0.1:80/`

// verbs are the commands behind bench.
var verbs = []struct {
	name  string
	run   func(ctx context.Context, s cli.Streams, args []string) error
	flags func() *pflag.FlagSet
}{
	{"decide", runDecide, func() *pflag.FlagSet { return new(decideOptions).flagSet() }},
	{"load", runLoad, func() *pflag.FlagSet { return new(loadOptions).flagSet() }},
}

// Command returns stint bench.
func Command() cli.Command {
	return cli.Command{
		Name: "bench", Args: "decide|load [flags]", Summary: "measure decisions, or put load on a service",
		Text: helpText, Run: run, Words: []string{"decide", "load"}, Flags: flagGroups,
	}
}

func flagGroups() []cli.FlagGroup {
	var groups []cli.FlagGroup
	for _, v := range verbs {
		groups = append(groups, cli.FlagGroup{Title: "  of " + v.name + ":", Verb: v.name, Flags: v.flags()})
	}
	return groups
}

func run(ctx context.Context, s cli.Streams, args []string) error {
	const see = "see stint help bench"
	var names []string
	for _, v := range verbs {
		if len(args) > 0 && args[0] == v.name {
			return v.run(ctx, s, args[1:])
		}
		names = append(names, v.name)
	}
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return cli.Usage("bench needs decide or load", "write stint bench decide, or stint bench load TARGET; "+see)
	}
	hint := "write decide or load first; " + see
	if near := strictyaml.Nearest(args[0], names); near != "" {
		hint = "is stint bench " + near + " meant? S" + see[1:]
	}
	return cli.Usage(fmt.Sprintf("unknown command %q", "bench "+args[0]), hint)
}
