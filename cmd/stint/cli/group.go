package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"stint/internal/strictyaml"
)

// verb is one of the commands behind a name, such as create of stint keys.
type verb struct {
	name, summary string
	run           func(ctx context.Context, s Streams, args []string) error
	flags         flagger
}

// group returns the command of a name with several verbs.
func group(name, summary, text string, verbs ...verb) Command {
	var names []string
	for _, v := range verbs {
		names = append(names, v.name)
	}
	return Command{
		Name: name, Args: "COMMAND [flags]", Summary: summary, Text: text,
		Run: func(ctx context.Context, s Streams, args []string) error {
			const see = "see stint help "
			if len(args) == 0 {
				return Usage(name+" needs one of "+strings.Join(names, ", "), see+name)
			}
			i := slices.Index(names, args[0])
			if i < 0 {
				hint := "write one of " + strings.Join(names, ", ") + " first"
				if near := strictyaml.Nearest(args[0], names); near != "" {
					hint = "is stint " + name + " " + near + " meant? See stint help " + name
				}
				return Usage("unknown command \""+name+" "+args[0]+"\"", hint)
			}
			return verbs[i].run(ctx, s, args[1:])
		},
		Words: names,
		Flags: func() []FlagGroup {
			var groups []FlagGroup
			for _, v := range verbs {
				own := pflag.NewFlagSet("", pflag.ContinueOnError)
				own.SortFlags = false
				common := new(adminCall).flagSet("")
				v.flags(new(adminCall), "").VisitAll(func(f *pflag.Flag) {
					if common.Lookup(f.Name) == nil {
						own.AddFlag(f)
					}
				})
				groups = append(groups, FlagGroup{"  of " + v.name + ", which " + v.summary + ":", v.name, own})
			}
			return append(groups, FlagGroup{"  of all of them:", "", new(adminCall).flagSet("")})
		},
	}
}
