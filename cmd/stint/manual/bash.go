package manual

import (
	"fmt"
	"slices"
	"strings"

	"stint/cmd/stint/cli"
)

// bashHead finds the word to complete. Bash splits --flag=value at the sign.
const bashHead = `# bash completion of stint

_stint() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]-} words= flags= values= files=
	if [[ $cur == = ]]; then
		cur=
	elif [[ $prev == = && $COMP_CWORD -gt 2 ]]; then
		prev=${COMP_WORDS[COMP_CWORD-2]}
	fi
	COMPREPLY=()
	if [[ $COMP_CWORD -eq 1 ]]; then
		COMPREPLY=($(compgen -W '%s' -- "$cur"))
		return
	fi
	case ${COMP_WORDS[1]} in
`

// bashTail completes the word: files by the shell itself, which -o default asks for.
const bashTail = `	esac
	if [[ $prev == -* && " $files " == *" $prev "* ]]; then
		return
	fi
	if [[ $prev == -* && " $values " == *" $prev "* ]]; then
		compopt +o default 2>/dev/null
		return
	fi
	if [[ $cur == -* ]]; then
		COMPREPLY=($(compgen -W "$flags" -- "$cur"))
	elif [[ $COMP_CWORD -eq 2 && -n $words ]]; then
		COMPREPLY=($(compgen -W "$words" -- "$cur"))
	fi
}
complete -o default -F _stint stint
`

// bash returns the completion for bash.
func bash(commands []cli.Command) string {
	var b strings.Builder
	var names []string
	for _, c := range commands {
		names = append(names, c.Name)
	}
	fmt.Fprintf(&b, bashHead, strings.Join(names, " "))
	for _, c := range commands {
		fmt.Fprintf(&b, "\t%s)\n", c.Name)
		if len(c.Words) > 0 {
			fmt.Fprintf(&b, "\t\twords='%s'\n", strings.Join(c.Words, " "))
		}
		if !hasVerbs(c) {
			bashFlags(&b, "\t\t", flagsFor(c, ""))
		} else {
			b.WriteString("\t\tcase ${COMP_WORDS[2]} in\n")
			for _, verb := range c.Words {
				fmt.Fprintf(&b, "\t\t%s)\n", verb)
				bashFlags(&b, "\t\t\t", flagsFor(c, verb))
				b.WriteString("\t\t\t;;\n")
			}
			b.WriteString("\t\tesac\n")
		}
		b.WriteString("\t\t;;\n")
	}
	b.WriteString(bashTail)
	return b.String()
}

// bashFlags writes the names of flags: all, those whose value is a file, and those with another
// value.
func bashFlags(b *strings.Builder, indent string, flags []flag) {
	var all, files, values []string
	for _, f := range flags {
		names := []string{"--" + f.name}
		if f.short != "" {
			names = append(names, "-"+f.short)
		}
		all = append(all, names...)
		switch {
		case f.value == "":
		case isFile(f.value):
			files = append(files, names...)
		default:
			values = append(values, names...)
		}
	}
	for _, list := range []struct {
		name  string
		words []string
	}{{"flags", all}, {"files", files}, {"values", values}} {
		if len(list.words) > 0 {
			fmt.Fprintf(b, "%s%s='%s'\n", indent, list.name, strings.Join(slices.Compact(list.words), " "))
		}
	}
}
