package rule

import "strings"

// level is the nodes below a node, by key.
type level map[string]*candidates

// candidates are the nodes of one level that have the same key.
type candidates struct {
	exact map[string]*node
	wild  []wildcard // in the order of the file
	any   *node      // the node without a value
}

// node is one descriptor of a rule file. One without rules and children matches
// and never limits: an entry of an allow list.
type node struct {
	path     []Level
	rules    []*Rule
	children level
	line     int
	order    int // among the nodes of the domain
}

// Match returns the rules of the node that the entries lead to, nil if there is
// none. At each level an exact value comes first, then the patterns in the order of
// the file, then the node without a value; there is no way back. Only the node of
// the last entry counts, so a descriptor that is deeper or shallower than the rule
// is not limited by it.
//
// The slice must not be changed. Nothing is allocated.
func (d *Domain) Match(entries []Entry) []*Rule {
	if n := d.find(entries); n != nil {
		return n.rules
	}
	return nil
}

func (d *Domain) find(entries []Entry) *node {
	var n *node
	children := d.root
	for i := range entries {
		c := children[entries[i].Key]
		if c == nil {
			return nil
		}
		if n = c.match(entries[i].Value); n == nil {
			return nil
		}
		children = n.children
	}
	return n
}

func (c *candidates) match(value string) *node {
	if n := c.exact[value]; n != nil {
		return n
	}
	for i := range c.wild {
		if c.wild[i].matches(value) {
			return c.wild[i].node
		}
	}
	return c.any
}

// wildcard is a node whose value holds stars, each for zero or more bytes.
type wildcard struct {
	prefix, suffix string
	middle         []string // what must stand between them, in order
	node           *node
}

func newWildcard(pattern string, n *node) wildcard {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	w := wildcard{prefix: parts[0], suffix: parts[last], node: n}
	for _, p := range parts[1:last] {
		if p != "" {
			w.middle = append(w.middle, p)
		}
	}
	return w
}

func (w *wildcard) matches(value string) bool {
	if len(value) < len(w.prefix)+len(w.suffix) || !strings.HasPrefix(value, w.prefix) || !strings.HasSuffix(value, w.suffix) {
		return false
	}
	rest := value[len(w.prefix) : len(value)-len(w.suffix)]
	for _, part := range w.middle {
		i := strings.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	return true
}
