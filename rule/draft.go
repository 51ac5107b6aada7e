package rule

import (
	"stint/rule/action"
)

// Draft is a domain that package rulefile is still reading. NewTable makes a Domain of it. It is
// not safe for concurrent use.
type Draft struct {
	Name   string
	Atomic bool // see Domain.Atomic

	// File and Line are where the domain begins.
	File string
	Line int

	Paths action.Paths
	HTTP  []HTTPLimit
	Lists []*Listed // exempt before deny

	tree *tree
}

// tree is the nodes of a domain.
type tree struct {
	root  level
	keys  keyPaths
	count int
}

// NewDraft returns the draft of a domain without nodes, which begins in a file.
func NewDraft(file string) *Draft {
	return &Draft{File: file, Atomic: true, tree: &tree{root: level{}, keys: keyPaths{}}}
}

// Join makes Put add nodes to those of first, a draft of the same domain.
func (d *Draft) Join(first *Draft) { d.tree = first.tree }

// Put adds a node below another node; nil adds it at the top. If a node with the same path
// exists, Put adds nothing and returns that node.
func (d *Draft) Put(n, below *Node) (first *Node) {
	d.tree.count++
	n.order = d.tree.count
	d.tree.keys.add(n.Path)
	if below == nil {
		return d.tree.root.put(n)
	}
	if below.children == nil {
		below.children = level{}
	}
	return below.children.put(n)
}

// Contents is everything a table consists of. Domains and Rules are in the order of their files
// and lines. Rules lists the rules of all nodes.
type Contents struct {
	Domains  []*Draft
	Rules    []*Rule
	Warnings []Warning
	Files    []string // see Table.Files
	Hash     string   // see Table.Hash

	Plans       []Plan // see Table.Plans
	DefaultPlan string
}

// NewTable returns a table. The caller must not change the contents afterwards.
func NewTable(c Contents) *Table {
	t := &Table{byName: map[string]*Domain{}, rules: c.Rules, warnings: c.Warnings, files: c.Files, hash: c.Hash, plans: c.Plans, defaultPlan: c.DefaultPlan}
	for _, draft := range c.Domains {
		d := draft.domain()
		t.domains = append(t.domains, d)
		t.byName[d.name] = d
	}
	t.markSecrets()
	for i, r := range t.rules {
		r.Index = i
	}
	t.adopt()
	return t
}

func (d *Draft) domain() *Domain {
	made := &Domain{
		name: d.Name, atomic: d.Atomic, file: d.File, root: d.tree.root, keys: d.tree.keys,
		http: d.HTTP, paths: d.Paths, lists: d.Lists,
	}
	for i := range made.http {
		h := &made.http[i]
		h.readsPath = h.Actions.ReadsPath() || h.Cost.ReadsPath()
		made.readsPath = made.readsPath || h.readsPath
		h.late = h.Actions.ReadsIdentity()
		made.readsIdentity = made.readsIdentity || h.late
		made.deniesKeys = made.deniesKeys || h.Actions.DeniesKeys()
	}
	made.root.identify()
	return made
}

// identify sets the keys of all rules at these nodes and below.
func (l level) identify() {
	for _, n := range l.nodes() {
		for _, r := range n.Rules {
			r.identify()
		}
		n.children.identify()
	}
}
