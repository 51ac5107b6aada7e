package manual

import (
	"fmt"
	"strings"

	"stint/cmd/stint/cli"
)

// zsh returns the completion for zsh, for a folder of its fpath or to be sourced.
func zsh(commands []cli.Command) string {
	var b strings.Builder
	b.WriteString("#compdef stint\n\n_stint() {\n\tif (( CURRENT == 2 )); then\n\t\tlocal -a commands=(\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "\t\t\t%s\n", quoted(c.Name+":"+c.Summary))
	}
	b.WriteString("\t\t)\n\t\t_describe -t commands command commands\n\t\treturn\n\tfi\n\tlocal command=$words[2]\n\tshift words\n\t(( CURRENT-- ))\n\tcase $command in\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "\t%s)\n", c.Name)
		if !hasVerbs(c) {
			zshArguments(&b, "\t\t", c, "")
		} else {
			fmt.Fprintf(&b, "\t\tif (( CURRENT == 2 )); then\n\t\t\tcompadd -- %s\n\t\t\treturn\n\t\tfi\n", strings.Join(c.Words, " "))
			b.WriteString("\t\tlocal verb=$words[2]\n\t\tshift words\n\t\t(( CURRENT-- ))\n\t\tcase $verb in\n")
			for _, verb := range c.Words {
				fmt.Fprintf(&b, "\t\t%s)\n", verb)
				zshArguments(&b, "\t\t\t", c, verb)
				b.WriteString("\t\t\t;;\n")
			}
			b.WriteString("\t\tesac\n")
		}
		b.WriteString("\t\t;;\n")
	}
	b.WriteString("\tesac\n}\n\nif [[ ${funcstack[1]-} == _stint ]]; then\n\t_stint \"$@\"\nelse\n\tcompdef _stint stint\nfi\n")
	return b.String()
}

// zshArguments writes the call of _arguments for the flags of a command with a verb.
func zshArguments(b *strings.Builder, indent string, c cli.Command, verb string) {
	fmt.Fprintf(b, "%s_arguments", indent)
	add := func(spec string) { fmt.Fprintf(b, " \\\n%s\t%s", indent, quoted(spec)) }
	for _, f := range flagsFor(c, verb) {
		text := "[" + zshText(f.usage) + "]"
		switch {
		case f.value == "":
			add("*--" + f.name + text)
		case isFile(f.value):
			add("*--" + f.name + "=" + text + ":" + zshText(f.value) + ":_files")
		default:
			add("*--" + f.name + "=" + text + ":" + zshText(f.value) + ": ")
		}
		if f.short != "" {
			add("-" + f.short + text)
		}
	}
	if len(c.Words) > 0 && verb == "" {
		add("1:word:(" + strings.Join(c.Words, " ") + ")")
	}
	if isFile(c.Args) {
		add("*:file:_files")
	}
	b.WriteByte('\n')
}

// zshText escapes what _arguments would read as its own signs.
func zshText(s string) string {
	return strings.NewReplacer(`\`, `\\`, ":", `\:`, "[", `\[`, "]", `\]`).Replace(s)
}

// quoted returns a text as one word of a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
