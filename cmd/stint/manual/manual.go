// Package manual writes what a terminal knows of the commands of stint from their one table of
// flags: the help of flags, completions for shells (bash.go, zsh.go, fish.go) and manual pages
// (page.go).
package manual

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"stint/cmd/stint/cli"
)

// Status is an exit status and what it means.
type Status struct {
	Code    int
	Meaning string
}

// About is what manual pages state beside the commands.
type About struct {
	Version  string
	Date     time.Time
	Statuses []Status
}

// Date returns the time of SOURCE_DATE_EPOCH, a number of seconds, and now if it is empty or wrong.
func Date(epoch string) time.Time {
	if seconds, err := strconv.ParseInt(epoch, 10, 64); err == nil {
		return time.Unix(seconds, 0).UTC()
	}
	return time.Now()
}

// completions are the writers of completions by the name of the shell.
var completions = map[string]func([]cli.Command) string{"bash": bash, "fish": fish, "zsh": zsh}

// Shells returns the names of the shells that have completions.
func Shells() []string { return []string{"bash", "zsh", "fish"} }

// IsShell reports whether there are completions for a shell.
func IsShell(name string) bool { return completions[name] != nil }

// Completion returns the completion script for a shell that [IsShell] accepts.
func Completion(shell string, commands []cli.Command) []byte {
	return []byte(completions[shell](withHelp(commands)))
}

// withHelp returns the commands and help, which explains them.
func withHelp(commands []cli.Command) []cli.Command {
	help := cli.Command{Name: "help", Args: "COMMAND", Summary: "explain a command and its flags"}
	for _, c := range commands {
		help.Words = append(help.Words, c.Name)
	}
	return append(slices.Clone(commands), help)
}

// Usages returns the help of the flags of a command, in lines of at most width characters.
func Usages(c cli.Command, width int) string {
	var b strings.Builder
	for i, g := range c.Flags() {
		if g.Title != "" {
			if i > 0 || !strings.HasPrefix(g.Title, " ") {
				b.WriteByte('\n')
			}
			b.WriteString(g.Title + "\n")
		}
		if b.WriteString(g.Flags.FlagUsagesWrapped(width)); !g.Flags.HasFlags() {
			b.WriteString("      none\n")
		}
	}
	return b.String()
}

// flag is a flag as shells and pages show it.
type flag struct {
	name, short string
	value       string // name of its value; "": it takes none, or need not
	usage       string // one line
	standard    string // the default; "": none worth a word
}

// flagsOf returns the flags of a group.
func flagsOf(g cli.FlagGroup) []flag {
	var all []flag
	g.Flags.VisitAll(func(f *pflag.Flag) {
		value, usage := pflag.UnquoteUsage(f)
		if f.NoOptDefVal != "" {
			value = ""
		} else {
			value = cmp.Or(value, "VALUE")
		}
		d := f.DefValue
		if slices.Contains([]string{"0", "0s", "false", "[]"}, d) {
			d = ""
		}
		all = append(all, flag{f.Name, f.Shorthand, value, strings.Join(strings.Fields(usage), " "), d})
	})
	return all
}

// groups returns the flags of a command; help is a flag of each.
func groups(c cli.Command) []cli.FlagGroup {
	var all []cli.FlagGroup
	if c.Flags != nil {
		all = c.Flags()
	}
	help := pflag.NewFlagSet("", pflag.ContinueOnError)
	help.BoolP("help", "h", false, "explain the command and its flags")
	return append(all, cli.FlagGroup{Flags: help})
}

// flagsFor returns the flags of a command with a verb, and the common ones.
func flagsFor(c cli.Command, verb string) []flag {
	var all []flag
	for _, g := range groups(c) {
		if g.Verb == "" || g.Verb == verb {
			all = append(all, flagsOf(g)...)
		}
	}
	return all
}

// hasVerbs reports whether the flags of a command depend on its first word.
func hasVerbs(c cli.Command) bool {
	return slices.ContainsFunc(groups(c), func(g cli.FlagGroup) bool { return g.Verb != "" })
}

// isFile reports whether a value is the name of a file or a folder.
func isFile(value string) bool {
	return slices.ContainsFunc([]string{"FILE", "FOLDER", "PATH", "LOG", "OLD", "RULES"}, func(word string) bool { return strings.Contains(value, word) })
}
