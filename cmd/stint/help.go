package main

import (
	"fmt"
	"io"
	"strings"

	"stint/cmd/stint/cli"
	"stint/cmd/stint/manual"
	"stint/cmd/stint/view"
	"stint/internal/text"
)

// help explains the command in args, or lists all commands.
func help(w io.Writer, args []string) error {
	if len(args) == 0 {
		printHelp(w)
		return nil
	}
	for _, c := range commands() {
		if c.Name == args[0] {
			printCommandHelp(w, c)
			return nil
		}
	}
	return unknownCommand(args[0])
}

func printHelp(w io.Writer) {
	w = view.Fit(w)
	fmt.Fprint(w, "Stint answers one question: may this request pass now?\n\nUsage:\n")
	const column = "  %-36s %s\n" // as wide as the longest command
	for _, c := range commands() {
		fmt.Fprintf(w, column, strings.TrimSpace("stint "+c.Name+" "+c.Args), c.Summary)
	}
	fmt.Fprintf(w, column, "stint help COMMAND", "explain a command and its flags")
	fmt.Fprint(w, "\nExit status:\n")
	for _, s := range exitStatuses {
		fmt.Fprintf(w, "  %3d  %s\n", s.Code, s.Meaning)
	}
}

func printCommandHelp(w io.Writer, c cli.Command) {
	width := view.Width(w)
	w = view.Fit(w)
	fmt.Fprintf(w, "Usage: %s\n\n%s\n", strings.TrimSpace("stint "+c.Name+" "+c.Args), filled(c.Text, width))
	if c.Flags != nil {
		fmt.Fprintf(w, "\nFlags:\n%s", manual.Usages(c, width))
	}
}

// filled returns a text for a width. The lines of texts are for cli.HelpWidth, so where that is too wide it joins those of
// a paragraph and breaks them anew. It keeps indented lines.
func filled(s string, width int) string {
	if width >= cli.HelpWidth {
		return s
	}
	var b strings.Builder
	paragraph := ""
	end := func() {
		if paragraph != "" {
			b.WriteString(text.Fold(paragraph+"\n", width, 0))
		}
		paragraph = ""
	}
	for line := range strings.Lines(s) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && line[0] != ' ' {
			paragraph = strings.TrimSpace(paragraph + " " + line)
			continue
		}
		end()
		b.WriteString(line + "\n")
	}
	end()
	return strings.TrimSuffix(b.String(), "\n")
}
