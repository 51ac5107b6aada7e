package rule

import "strings"

// level is the nodes below a node, by key.
type level map[string]*candidates

// candidates are the nodes of one level that have the same key.
type candidates struct {
	exact map[string]*Node
	wild  []wildcard // in the order of the file
	any   *Node      // the node without a value
}

// Node is one descriptor of a rule file. It must not be changed.
type Node struct {
	// Path is the way to it from the root of its domain; its own level is the last.
	Path []Level

	// Rules are its limits. One without rules and children matches and never limits: an
	// entry of an allow list.
	Rules []*Rule

	// File and Line are where it stands.
	File string
	Line int

	children level
	order    int // among the nodes of the domain
}

// Below returns the nodes one level deeper, in the order of the file.
func (n *Node) Below() []*Node { return n.children.nodes() }

// Nodes returns the outermost nodes of the domain, in the order of the file.
func (d *Domain) Nodes() []*Node { return d.root.nodes() }

// Match returns the rules of the node that the entries lead to, nil if there is
// none. At each level an exact value comes first, then the patterns in the order of
// the file, then the node without a value; there is no way back. Only the node of
// the last entry counts, so a descriptor that is deeper or shallower than the rule
// is not limited by it.
//
// The slice must not be changed. Nothing is allocated.
func (d *Domain) Match(entries []Entry) []*Rule {
	if n := d.Find(entries); n != nil {
		return n.Rules
	}
	return nil
}

// Find returns the node that the entries lead to, nil if there is none; see Match.
func (d *Domain) Find(entries []Entry) *Node {
	var n *Node
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

func (c *candidates) match(value string) *Node {
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
	node           *Node
}

func newWildcard(pattern string, n *Node) wildcard {
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
