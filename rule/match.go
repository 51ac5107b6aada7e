package rule

import (
	"stint/internal/text"
)

// level is the children of a node, by key.
type level map[string]*candidates

// candidates are the nodes of one level with the same key.
type candidates struct {
	exact map[string]*Node
	wild  []wildcard // in file order
	any   *Node      // the node without a value
}

// Node is one descriptor of a rule file. Callers must not change it.
type Node struct {
	// Path is the path from the root of the domain; the last element is the node itself.
	Path []Level

	// Rules are the limits of the node. A node without rules and children matches and never
	// limits: an entry of an allow list.
	Rules []*Rule

	// File and Line are the place of the descriptor.
	File string
	Line int

	children level
	order    int // position among the nodes of the domain
}

// Below returns the child nodes in file order.
func (n *Node) Below() []*Node { return n.children.nodes() }

// Nodes returns the top-level nodes of the domain in file order.
func (d *Domain) Nodes() []*Node { return d.root.nodes() }

// Match returns the rules of the node that the entries match, nil if there is none. At each level
// an exact value is preferred, then the patterns in file order, then the node without a value.
// Match does not backtrack. Only the node of the last entry counts: a rule with more or fewer
// entries does not apply.
//
// Callers must not change the slice. Match allocates nothing.
func (d *Domain) Match(entries []Entry) []*Rule {
	if n := d.Find(entries); n != nil {
		return n.Rules
	}
	return nil
}

// Exempts reports whether the entries match a node without limits and without children: an entry
// of an allow list.
func (d *Domain) Exempts(entries []Entry) bool {
	n := d.Find(entries)
	return n != nil && len(n.Rules) == 0 && len(n.children) == 0
}

// AppendUnknown appends to dst the keys of the entries up to the first one that no descriptor of the domain has in this order,
// whatever the values, joined by slashes and cut to most bytes. It appends nothing if there is no such key.
func (d *Domain) AppendUnknown(dst []byte, entries []Entry, most int) []byte {
	n := d.knows(entries)
	if n == len(entries) {
		return dst
	}
	from := len(dst)
	for i := range entries[:n+1] {
		if i > 0 {
			dst = append(dst, '/')
		}
		dst = append(dst, entries[i].Key[:min(len(entries[i].Key), most)]...)
	}
	return dst[:min(len(dst), from+most)]
}

// knows returns how many of the entries, counted from the first, have keys that some descriptor
// of the domain has in this order, whatever the values. It allocates nothing.
func (d *Domain) knows(entries []Entry) int {
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

// keyPaths maps each descriptor key to the keys below it.
type keyPaths map[string]keyPaths

// add adds the keys of a path.
func (k keyPaths) add(path []Level) {
	for i := range path {
		if k[path[i].Key] == nil {
			k[path[i].Key] = keyPaths{}
		}
		k = k[path[i].Key]
	}
}

// Find returns the node that the entries match, nil if there is none; see Match.
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

// wildcard is a node whose value contains stars.
type wildcard struct {
	text.Glob
	node *Node
}

// put adds a node to its level, or returns the node that is there already.
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
	c.exact[at.Value] = n // a pattern first matches its own text, as in Envoy's service
	if at.Wildcard {
		c.wild = append(c.wild, wildcard{text.NewGlob(at.Value), n})
	}
	return nil
}
