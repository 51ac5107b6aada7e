package convert

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// A zone is one `zone` of a `rate_limit`.
type zone struct {
	name    string
	line    int
	key     string
	keyLine int
	events  uint64
	window  time.Duration
	v4, v6  int // prefix lengths, 0: not set
	matches []*node

	identity bool // the key reads the user that authentication proved
}

// Limits of a rule file.
const (
	shortest = 10 * time.Millisecond
	longest  = 366 * 24 * time.Hour
)

// zone reads a `zone NAME { ... }`.
func (c *converter) zone(n *node) *zone {
	z := &zone{name: n.word(1), line: n.line, keyLine: n.line}
	if len(n.words) != 2 || !n.braces {
		c.fail(n.line, "zone needs a name and a block", "write `zone NAME {`")
		return z
	}
	if strings.ContainsAny(z.name, "{}") {
		c.fail(n.line, fmt.Sprintf("the name of zone %s has a placeholder", z.name), "write the name itself: every zone becomes a rule of its own")
	}
	set := map[string]bool{}
	for _, word := range n.block {
		name := word.word(0)
		if name == "match" {
			if !word.braces || len(word.block) == 0 || len(word.words) != 1 {
				c.fail(word.line, "match without matchers", "write them in a block, one a line")
				continue
			}
			z.matches = append(z.matches, word)
			continue
		}
		read, known := zoneWords[name]
		switch {
		case !known:
			c.fail(word.line, fmt.Sprintf("zone %s: unknown word %q", z.name, name), "a zone has key, window, events, match, ipv4_prefix and ipv6_prefix")
		case set[name]:
			c.fail(word.line, fmt.Sprintf("zone %s: %s is there twice", z.name, name), "remove one")
		case len(word.words) != 2 || word.braces:
			c.fail(word.line, fmt.Sprintf("zone %s: %s needs one value", z.name, name), "write `"+name+" VALUE`")
		case name != "key" && strings.Contains(word.word(1), "{"):
			c.fail(word.line, fmt.Sprintf("zone %s: %s depends on a variable: %s", z.name, name, word.word(1)), "write the value itself: rule files have no variables")
		default:
			if text, hint := read(z, word); text != "" {
				c.fail(word.line, fmt.Sprintf("zone %s: %s", z.name, text), hint)
			}
		}
		set[name] = true
	}
	if !set["window"] || !set["events"] {
		c.fail(n.line, fmt.Sprintf("zone %s needs both window and events", z.name), "add what is missing")
	}
	return z
}

// zoneWords read the words of a zone, and return what is wrong and a hint.
var zoneWords = map[string]func(*zone, *node) (text, hint string){
	"key": func(z *zone, n *node) (string, string) {
		z.key, z.keyLine = n.word(1), n.line
		if strings.Contains(z.key, "{$") || strings.Contains(z.key, "{args") {
			return "the key depends on a variable: " + z.key, "write the key itself: rule files have no variables"
		}
		return "", ""
	},
	"window": func(z *zone, n *node) (string, string) {
		window, err := caddy.ParseDuration(n.word(1))
		switch {
		case err != nil:
			return fmt.Sprintf("window %q is no duration", n.word(1)), "write a number and a unit, such as 90s or 1d"
		case window < shortest || window > longest:
			return "window " + n.word(1) + " is out of range", "a period is from 10ms to 366d"
		case window%time.Microsecond != 0:
			return "window " + n.word(1) + " is finer than a microsecond", "use whole microseconds"
		}
		z.window = window
		return "", ""
	},
	"events": func(z *zone, n *node) (string, string) {
		events, err := strconv.ParseUint(n.word(1), 10, 32)
		if err != nil || events < 1 {
			return fmt.Sprintf("events %q is out of range", n.word(1)), "write a number from 1 to 4294967295"
		}
		z.events = events
		return "", ""
	},
	"ipv4_prefix": func(z *zone, n *node) (text, hint string) { return prefix(&z.v4, n, 32) },
	"ipv6_prefix": func(z *zone, n *node) (text, hint string) { return prefix(&z.v6, n, 128) },
}

func prefix(into *int, n *node, most int) (text, hint string) {
	bits, err := strconv.Atoi(n.word(1))
	if err != nil || bits < 0 || bits > most {
		return fmt.Sprintf("%s %q is out of range", n.word(0), n.word(1)), fmt.Sprintf("write a number from 0 to %d", most)
	}
	*into = bits
	return "", ""
}
