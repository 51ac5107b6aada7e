package convert

import (
	"fmt"
	"strings"
	"time"
)

// A group is a domain: the zones of a directive that have the same condition.
type group struct {
	name  string // the domain: the name of the first zone
	file  string // its rule file
	match string // the lines of its matcher; "": every request
	zones []*zone

	sources map[*zone][]source
}

// identity reports whether the keys read the user that authentication proved.
func (g *group) identity() bool { return g.zones[0].identity }

// directive returns the directive that decides the domain.
func (g *group) directive() string {
	if g.identity() {
		return "stint"
	}
	return "stint_early"
}

// group makes domains of the zones of one directive, and adds those that are new to the converter.
func (c *converter) group(zones []*zone) []*group {
	var groups []*group
	for _, z := range zones {
		sources := c.sources(z)
		match := c.match(z)
		var g *group
		for _, other := range groups {
			if other.match == match && other.identity() == z.identity {
				g = other
			}
		}
		if g == nil {
			g = &group{name: z.name, file: identifier(z.name) + ".yaml", match: match, sources: map[*zone][]source{}}
			groups = append(groups, g)
		}
		g.zones = append(g.zones, z)
		g.sources[z] = sources
	}
	for i, g := range groups {
		if old := c.domains[g.name]; old != nil && old.same(g) {
			groups[i] = old
			continue
		}
		c.add(g)
	}
	return groups
}

// add adds a domain. Zones of the same name count together there, which two domains cannot.
func (c *converter) add(g *group) {
	for _, z := range g.zones {
		if old := c.zones[z.name]; old != nil {
			c.fail(z.line, fmt.Sprintf("zone %s is also in line %d, and they are not the same", z.name, old.zone(z.name).line), "give each its own name, or put the directive into a snippet and import it twice")
		}
		c.zones[z.name] = g
	}
	for _, old := range c.order {
		if old.file == g.file && old.name != g.name {
			c.fail(g.zones[0].line, fmt.Sprintf("the zones %s and %s need the same file name", old.name, g.name), "rename one of them")
		}
	}
	c.domains[g.name] = g
	c.order = append(c.order, g)
}

func (g *group) zone(name string) *zone {
	for _, z := range g.zones {
		if z.name == name {
			return z
		}
	}
	return nil
}

// same reports whether two groups have the same rules and the same condition.
func (g *group) same(other *group) bool {
	return g.match == other.match && string(g.rules()) == string(other.rules())
}

// match returns the lines of the zone's matcher, each with its indentation. Several match blocks are
// alternatives, which a matcher has only in the form not (not A, not B).
func (c *converter) match(z *zone) string {
	switch len(z.matches) {
	case 0:
		return ""
	case 1:
		return c.body(z.matches[0], c.indent(z.line))
	}
	indent := c.indent(z.line)
	var text strings.Builder
	text.WriteString(indent + "not {\n")
	for _, m := range z.matches {
		fmt.Fprintf(&text, "%s\tnot {\n%s%s\t}\n", indent, c.body(m, indent+"\t\t"), indent)
	}
	text.WriteString(indent + "}\n")
	return text.String()
}

// rules returns the rule file of the domain.
func (g *group) rules() []byte {
	var text strings.Builder
	fmt.Fprintf(&text, "domain: %s\ndescriptors:\n", quote(g.name))
	for _, z := range g.zones {
		fmt.Fprintf(&text, "  - key: zone\n    value: %s\n", quote(z.name))
		z.levels(&text, g.sources[z], 4)
	}
	text.WriteString("http:\n  rate_limits:\n")
	for _, z := range g.zones {
		fmt.Fprintf(&text, "    - actions:\n        - generic_key: {descriptor_key: zone, descriptor_value: %s}\n", quote(z.name))
		for _, s := range g.sources[z] {
			fmt.Fprintf(&text, "        - %s\n", fmt.Sprintf(s.action, "descriptor_key: "+s.key))
		}
	}
	return []byte(text.String())
}

// levels writes the limit and the levels below it. Requests that lack an optional value share a
// bucket, as there: the limit stands at each level that such a request may end at.
func (z *zone) levels(text *strings.Builder, sources []source, depth int) {
	indent := strings.Repeat(" ", depth)
	if ends(sources) {
		fmt.Fprintf(text, "%srate_limit: {requests: %d, per: %s, algorithm: sliding_log, name: %s}\n", indent, z.events, period(z.window), quote(z.name))
	}
	if len(sources) == 0 {
		return
	}
	text.WriteString(indent + "descriptors:\n")
	for i, s := range sources {
		fmt.Fprintf(text, "%s  - key: %s\n", indent, s.key)
		z.levels(text, sources[i+1:], depth+4)
		if !s.optional {
			return
		}
	}
}

// ends reports whether a request may have none of the values.
func ends(sources []source) bool {
	for _, s := range sources {
		if !s.optional {
			return false
		}
	}
	return true
}

// period writes a duration without parts of zero.
func period(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
