package convert

import (
	"fmt"
	"slices"
	"strings"
)

// A Source is a Caddyfile to convert.
type Source struct {
	Text []byte
	File string // its name in faults

	// Rules is the path that the option `rules` gets: the folder of Result.Rules. Store is the value
	// of the option `store`, such as "memory" or "redis://127.0.0.1:6379".
	Rules, Store string
}

// A Result is a converted Caddyfile.
type Result struct {
	Caddyfile []byte
	Rules     map[string][]byte // the rule files, by their names

	// Notes name the words that were left out because Stint needs no such word: no verdict depends
	// on them.
	Notes []Fault
}

// Convert converts a Caddyfile. The error is [Faults] if something cannot be converted; the result is
// then empty.
func Convert(s Source) (Result, error) {
	tree, err := parse(s.Text, s.File)
	if err != nil {
		return Result{}, err
	}
	c := &converter{in: s, tree: tree, domains: map[string]*group{}, zones: map[string]*group{}}
	c.checkWords()
	c.tree.each(func(n *node) bool {
		if n.word(0) != "rate_limit" || n.parent.isOptions() {
			return true
		}
		c.limit(n)
		return false
	})
	if len(c.order) == 0 && len(c.faults) == 0 {
		c.fail(1, "no rate_limit is here", "give the Caddyfile that has the directive")
	}
	c.options()
	if len(c.faults) > 0 {
		slices.SortStableFunc(c.faults, func(a, b Fault) int { return a.Line - b.Line })
		return Result{}, c.faults
	}
	result := Result{Caddyfile: c.edited(), Rules: map[string][]byte{}, Notes: c.notes}
	for _, g := range c.order {
		result.Rules[g.file] = g.rules()
	}
	return result, nil
}

// A converter converts one Caddyfile.
type converter struct {
	in     Source
	tree   *node
	faults Faults
	notes  []Fault
	edits  []edit

	domains map[string]*group // by name
	zones   map[string]*group // by the name of a zone in it
	order   []*group          // the domains as they come
}

func (c *converter) fail(line int, text, hint string) {
	c.faults = append(c.faults, Fault{c.in.File, line, text, hint})
}

func (c *converter) note(line int, text, hint string) {
	c.notes = append(c.notes, Fault{c.in.File, line, text, hint})
}

// checkWords reports words of caddy-ratelimit outside of its directive.
func (c *converter) checkWords() {
	c.tree.each(func(n *node) bool {
		for _, word := range n.words {
			switch {
			case strings.Contains(word, "http.rate_limit.exceeded.name"):
				c.fail(n.line, "the placeholder {http.rate_limit.exceeded.name} has no counterpart", "remove it, and use {http.stint.rule} after the conversion")
			case word == "rate_limit_exceeded":
				c.fail(n.line, "the event rate_limit_exceeded has no counterpart", "remove it; metrics and the access log name the rule")
			}
		}
		if n.word(0) == "handle_errors" {
			c.errorRoute(n)
		}
		if n.isOptions() {
			for _, option := range n.block {
				if option.word(0) == "stint" {
					c.fail(option.line, "the Caddyfile has the option stint already", "remove it, or add the limits by hand")
				}
			}
		}
		return true
	})
}

// errorRoute reports a handle_errors, which denials of Stint do not reach.
func (c *converter) errorRoute(n *node) {
	switch {
	case len(n.words) == 1:
		c.note(n.line, "handle_errors does not see denials any more", "give the rules a `denial` if it has a page for them")
	case slices.Contains(n.words, "429") || slices.Contains(n.words, "4xx"):
		c.fail(n.line, "handle_errors for 429 has no counterpart: Stint answers denied requests itself", "remove it, and give the rules a `denial` after the conversion")
	}
}

// proxies reports whether the Caddyfile has trusted_proxies, and each time with trusted_proxies_strict.
func (c *converter) proxies() (set, strict bool) {
	strict = true
	c.tree.each(func(n *node) bool {
		if n.word(0) == "trusted_proxies" && n.parent.word(0) == "servers" {
			set = true
			strict = strict && slices.ContainsFunc(n.parent.block, func(n *node) bool { return n.word(0) == "trusted_proxies_strict" })
		}
		return true
	})
	return set, set && strict
}

// limit converts one rate_limit directive.
func (c *converter) limit(n *node) {
	outer, ok := c.outer(n)
	if !ok {
		return
	}
	var zones []*zone
	for _, word := range n.block {
		if word.word(0) == "zone" {
			zones = append(zones, c.zone(word))
		} else {
			c.option(word)
		}
	}
	if len(zones) == 0 {
		c.fail(n.line, "rate_limit without a zone limits nothing", "remove it")
	}
	groups := c.group(zones)
	if len(c.faults) > 0 {
		return
	}
	indent := c.indent(n.line)
	var text strings.Builder
	for _, g := range groups {
		matcher := outer
		if g.match != "" {
			if outer != "" {
				c.fail(n.line, fmt.Sprintf("rate_limit%s has zones with match", outer), "write the condition of"+outer+" into match too, and remove it here")
				return
			}
			matcher = " @stint_" + identifier(g.name)
			fmt.Fprintf(&text, "%s%s {\n%s%s}\n", indent, matcher[1:], g.match, indent)
		}
		if g.identity() && !c.afterAuthentication(n) {
			c.fail(g.zones[0].keyLine, "before authentication {http.auth.user.id} is always empty", "add `order rate_limit after basic_auth` to the global options")
		}
		fmt.Fprintf(&text, "%s%s%s %s\n", indent, g.directive(), matcher, word(g.name))
	}
	c.edits = append(c.edits, edit{n.line, n.end, text.String()})
}

// outer returns the matcher of the directive with a space before it, "" if it has none.
func (c *converter) outer(n *node) (matcher string, ok bool) {
	switch {
	case !n.braces:
		c.fail(n.line, "rate_limit without a block", "give it a block with zones, or remove it")
	case len(n.words) > 2 || len(n.words) == 2 && !strings.ContainsAny(n.words[1][:1], "/@*"):
		c.fail(n.line, fmt.Sprintf("rate_limit has the argument %q", n.words[len(n.words)-1]), "it takes one matcher: *, a path or @name")
	case len(n.words) == 2 && n.words[1] != "*":
		return " " + n.words[1], true
	default:
		return "", true
	}
	return "", false
}

// option converts a word beside the zones.
func (c *converter) option(n *node) {
	switch name := n.word(0); name {
	case "distributed":
		if c.in.Store == "memory" {
			c.fail(n.line, "distributed needs a store that all nodes share", "convert with --store redis://HOST:PORT")
			return
		}
		c.note(n.line, "distributed is left out", "all nodes with the same store count together")
	case "storage":
		c.note(n.line, "storage is left out", "counts are in the store of the option stint")
	case "sweep_interval":
		c.note(n.line, "sweep_interval is left out", "expired keys are removed all the time")
	case "disable_metrics":
		c.note(n.line, "disable_metrics is left out", "no metric has a label that a client can choose")
	case "log_key":
		c.fail(n.line, "log_key has no counterpart: keys are never logged in clear", "remove it")
	case "jitter":
		c.fail(n.line, "jitter has no counterpart: Retry-After is the time after which the request passes", "remove it")
	default:
		c.fail(n.line, fmt.Sprintf("rate_limit: unknown word %q", name), "it has zone, distributed, storage, jitter, sweep_interval, log_key and disable_metrics")
	}
}

// afterAuthentication reports whether the directive runs where a user may be known: in a route, or
// by an option order.
func (c *converter) afterAuthentication(n *node) bool {
	for at := n.parent; at != nil; at = at.parent {
		if at.word(0) == "route" {
			return true
		}
	}
	found := false
	c.tree.each(func(n *node) bool {
		found = found || n.word(0) == "order" && n.word(1) == "rate_limit" && n.word(2) != "first" && n.parent.isOptions()
		return true
	})
	return found
}
