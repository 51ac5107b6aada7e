package manual

import (
	"fmt"
	"strings"

	"stint/cmd/stint/cli"
)

// fish returns the completion for fish.
func fish(commands []cli.Command) string {
	var b strings.Builder
	b.WriteString("# fish completion of stint\n\ncomplete -c stint -f\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "complete -c stint -n __fish_use_subcommand -a %s -d %s\n", c.Name, fishText(c.Summary))
	}
	for _, c := range commands {
		b.WriteByte('\n')
		used := "__fish_seen_subcommand_from " + c.Name
		if len(c.Words) > 0 {
			words := strings.Join(c.Words, " ")
			fmt.Fprintf(&b, "complete -c stint -n %s -a %s\n", fishText(fishFirst(c.Name)), fishText(words))
		}
		if isFile(c.Args) {
			fmt.Fprintf(&b, "complete -c stint -n %s -F\n", fishText(used))
		}
		for _, g := range groups(c) {
			when := used
			if g.Verb != "" {
				when += "; and __fish_seen_subcommand_from " + g.Verb
			}
			for _, f := range flagsOf(g) {
				fmt.Fprintf(&b, "complete -c stint -n %s -l %s", fishText(when), f.name)
				if f.short != "" {
					fmt.Fprintf(&b, " -s %s", f.short)
				}
				switch {
				case f.value == "":
				case isFile(f.value):
					b.WriteString(" -r -F")
				default:
					b.WriteString(" -x")
				}
				fmt.Fprintf(&b, " -d %s\n", fishText(f.usage))
			}
		}
	}
	return b.String()
}

// fishFirst returns the condition that a command stands first and has no argument yet.
func fishFirst(command string) string {
	return "test (count (commandline -opc)) -eq 2; and __fish_seen_subcommand_from " + command
}

// fishText returns a text as one word of fish.
func fishText(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
}
