package convert

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// An edit replaces the lines from first to last by text. With last below first it only inserts.
type edit struct {
	first, last int
	text        string
}

// edited returns the Caddyfile with all edits.
func (c *converter) edited() []byte {
	slices.SortStableFunc(c.edits, func(a, b edit) int { return a.first - b.first })
	var out bytes.Buffer
	at := 1
	for _, e := range c.edits {
		out.WriteString(c.lines(at, e.first-1))
		out.WriteString(e.text)
		at = max(at, e.last+1)
	}
	out.WriteString(c.lines(at, bytes.Count(c.in.Text, []byte("\n"))+1))
	return out.Bytes()
}

// lines returns the lines from first to last, with their line breaks.
func (c *converter) lines(first, last int) string {
	all := strings.SplitAfter(string(c.in.Text), "\n")
	return strings.Join(all[first-1:max(first-1, min(last, len(all)))], "")
}

// indent returns the white space at the beginning of a line.
func (c *converter) indent(line int) string {
	text := c.lines(line, line)
	return text[:len(text)-len(strings.TrimLeft(text, " \t"))]
}

// body returns the lines inside the node's braces, indented by indent if all lines allow it.
func (c *converter) body(n *node, indent string) string {
	text := c.lines(n.line+1, n.end-1)
	old := c.indent(n.block[0].line)
	if strings.Contains(text, "<<") {
		return text
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		rest, ok := strings.CutPrefix(line, old)
		if !ok {
			rest = strings.TrimLeft(line, " \t")
		}
		out.WriteString(indent + rest)
	}
	return out.String()
}

// options changes the global options: the order of the directive, and the option stint.
func (c *converter) options() {
	stint := fmt.Sprintf("\tstint {\n\t\trules %s\n\t\tstore %s\n\t}\n", word(c.in.Rules), word(c.in.Store))
	for _, n := range c.tree.block {
		if !n.isOptions() {
			continue
		}
		c.edits = append(c.edits, edit{n.line + 1, n.line, stint})
		for _, option := range n.block {
			if option.word(0) == "order" && slices.Contains(option.words, "rate_limit") {
				c.edits = append(c.edits, edit{option.line, option.end, c.ordered(option)})
			}
		}
		return
	}
	c.edits = append(c.edits, edit{1, 0, "{\n" + stint + "}\n\n"})
}

// ordered returns an option order of rate_limit as options of our directives.
func (c *converter) ordered(option *node) string {
	var names []string
	for _, g := range c.order {
		if name := g.directive(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if option.word(1) != "rate_limit" && len(names) > 1 {
		c.fail(option.line, "the order of "+option.word(1)+" is relative to rate_limit, which becomes stint_early and stint", "give it an order relative to another directive")
	}
	var text strings.Builder
	for _, name := range names {
		line := strings.Join(option.words, " ")
		text.WriteString(c.indent(option.line) + strings.Replace(line, "rate_limit", name, 1) + "\n")
	}
	return text.String()
}

// identifier returns the name with only letters, digits, - and _, for files and matchers.
func identifier(name string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, name)
}

// word returns text as one word of a Caddyfile.
func word(text string) string {
	if text != "" && !strings.ContainsAny(text, " \t\n\"`{}#") {
		return text
	}
	return "\"" + strings.ReplaceAll(text, "\"", "\\\"") + "\""
}
