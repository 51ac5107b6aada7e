package rule

import (
	"stint/internal/text"
)

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

// Exempts says whether the entries lead to a node without limits and without others below it:
// an entry of an allow list.
func (d *Domain) Exempts(entries []Entry) bool {
	n := d.Find(entries)
	return n != nil && len(n.Rules) == 0 && len(n.children) == 0
}

// Knows returns how many of the entries, from the first on, have keys that descriptors of the
// domain have in this order, whatever their values. Nothing is allocated.
func (d *Domain) Knows(entries []Entry) int {
	below := d.keys
	for i := range entries {
		next, ok := below[entries[i].Key]
		if !ok {
			return i
		}
		below = next
	}
	return len(entries)
}

// keyPaths are the keys of descriptors, each with those of the descriptors below it.
type keyPaths map[string]keyPaths

// add adds the keys on the way to a node.
func (k keyPaths) add(path []Level) {
	for i := range path {
		if k[path[i].Key] == nil {
			k[path[i].Key] = keyPaths{}
		}
		k = k[path[i].Key]
	}
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
		if c.wild[i].Matches(value) {
			return c.wild[i].node
		}
	}
	return c.any
}

// wildcard is a node whose value holds stars.
type wildcard struct {
	text.Glob
	node *Node
}

// put adds a node to its level. It returns the one that stands there already.
func (l level) put(n *Node) *Node {
	at := n.Path[len(n.Path)-1]
	c := l[at.Key]
	if c == nil {
		c = &candidates{exact: map[string]*Node{}}
		l[at.Key] = c
	}
	if at.Value == "" {
		if c.any != nil {
			return c.any
		}
		c.any = n
		return nil
	}
	if first := c.exact[at.Value]; first != nil {
		return first
	}
	c.exact[at.Value] = n // a pattern matches its own text first, as in Envoy's service
	if at.Wildcard {
		c.wild = append(c.wild, wildcard{text.NewGlob(at.Value), n})
	}
	return nil
}
