package manual

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"stint/cmd/stint/cli"
)

// Page is a manual page, in the language mdoc.
type Page struct {
	Name string // of its file
	Text []byte
}

// Pages returns the manual pages: stint.1, and stint-NAME.1 for each command.
func Pages(commands []cli.Command, about About) []Page {
	all := withHelp(commands)
	pages := []Page{{"stint.1", overview(all, about)}}
	for _, c := range all {
		pages = append(pages, Page{"stint-" + c.Name + ".1", command(c, about)})
	}
	return pages
}

// page is a page in the making.
type page struct{ strings.Builder }

// line writes a line of macros.
func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// begin writes the head of a page.
func (p *page) begin(name, summary string, about About) {
	p.line(".Dd %s", about.Date.Format("January 2, 2006"))
	p.line(".Dt %s 1", strings.ToUpper(name))
	p.line(".Os Stint %s", word(about.Version))
	p.line(".Sh NAME")
	p.line(".Nm %s", name)
	p.line(".Nd %s", word(summary))
	p.line(".Sh SYNOPSIS")
}

// statuses writes the exit statuses.
func (p *page) statuses(about About) {
	p.line(".Sh EXIT STATUS")
	p.line(".Bl -tag -width 3n")
	for _, s := range about.Statuses {
		p.line(".It %d\n%s", s.Code, text(s.Meaning))
	}
	p.line(".El")
}

// overview returns the page of stint.
func overview(commands []cli.Command, about About) []byte {
	p := new(page)
	p.begin("stint", "limit rates: a service, and a tool for its rules", about)
	p.line(".Nm")
	p.line(".Ar COMMAND")
	p.line(".Op Ar argument ...")
	p.line(".Sh DESCRIPTION")
	p.line("Stint answers one question: may this request pass now?\nThe commands are:")
	p.line(".Bl -tag -width overrides")
	for _, c := range commands {
		p.line(".It Cm %s\n%s;\nsee\n.Xr stint-%s 1 .", c.Name, text(c.Summary), c.Name)
	}
	p.line(".El")
	p.line(".Sh ENVIRONMENT")
	p.line("Each setting of\n.Xr stint-serve 1\nis a variable too: STINT_DRAIN_DELAY for\n.Fl Fl drain\\-delay .")
	p.statuses(about)
	p.line(".Sh DIAGNOSTICS")
	p.line("An error is one line with the place and the problem, followed by a line that begins with\n.Dq hint:\nand proposes what to do.")
	return []byte(p.String())
}

// command returns the page of a command.
func command(c cli.Command, about About) []byte {
	p := new(page)
	p.begin("stint-"+c.Name, c.Summary, about)
	p.line(".Nm stint")
	p.line(".Cm %s", c.Name)
	for arg := range strings.FieldsSeq(c.Args) {
		if inner, optional := strings.CutPrefix(arg, "["); optional {
			p.line(".Op Ar %s", word(strings.TrimSuffix(inner, "]")))
		} else {
			p.line(".Ar %s", word(arg))
		}
	}
	p.line(".Sh DESCRIPTION")
	p.prose(cmp.Or(c.Text, strings.ToUpper(c.Summary[:1])+c.Summary[1:]+"."))
	if len(c.Words) > 0 {
		p.line(".Pp\nThe first argument is one of %s.", text(strings.Join(c.Words, ", ")))
	}
	p.line(".Sh OPTIONS")
	for _, g := range groups(c) {
		if g.Title != "" {
			p.line(".Ss %s", word(strings.TrimSuffix(strings.TrimSpace(g.Title), ":")))
		}
		p.options(flagsOf(g))
	}
	p.statuses(about)
	p.line(".Sh SEE ALSO\n.Xr stint 1")
	return []byte(p.String())
}

// options writes a list of flags.
func (p *page) options(flags []flag) {
	if len(flags) == 0 {
		p.line("None.")
		return
	}
	p.line(".Bl -tag -width Ds")
	for _, f := range flags {
		it := ".It"
		if f.short != "" {
			it += " Fl " + word(f.short) + " ,"
		}
		it += " Fl Fl " + word(f.name)
		if f.value != "" {
			it += " Ar " + word(f.value)
		}
		p.line("%s\n%s", it, text(f.usage))
		if f.standard != "" {
			p.line("(default %s)", text(f.standard))
		}
	}
	p.line(".El")
}

// prose writes the text of a command: paragraphs, and indented lines as they stand.
func (p *page) prose(s string) {
	for i, paragraph := range strings.Split(strings.Trim(s, "\n"), "\n\n") {
		lines := strings.Split(strings.Trim(paragraph, "\n"), "\n")
		shown := slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "  ") })
		switch {
		case shown:
			p.line(".Bd -literal -offset indent")
		case i > 0:
			p.line(".Pp")
		}
		for _, line := range lines {
			p.line("%s", text(strings.TrimPrefix(line, "  ")))
		}
		if shown {
			p.line(".Ed")
		}
	}
}

// sentence is the end of a sentence, and the beginning of the next: mdoc begins it on a new line.
var sentence = regexp.MustCompile(`([A-Za-z0-9)]{2}[.!?]) +([A-Z])`)

// text escapes a line of text.
func text(s string) string {
	s = sentence.ReplaceAllString(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s), "$1\n$2")
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

// word escapes the argument of a macro, so that no word of it is read as a macro or a delimiter.
func word(s string) string {
	words := strings.Fields(strings.ReplaceAll(text(s), `"`, `\(dq`))
	for i, w := range words {
		words[i] = `\&` + w
		if strings.ContainsAny(w[len(w)-1:], ".,:;()[]?!") {
			words[i] += `\&`
		}
	}
	return strings.Join(words, " ")
}
