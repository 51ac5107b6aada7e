package catalog

import (
	"encoding/binary"
	"hash/maphash"
	"regexp"
	"unsafe"

	"stint/rule/catalog/order"
)

// version is the immutable set of all rules at one time. The next version shares everything that
// does not change. Rules, nodes and leaves have numbers (0 means none) and are stored in arrays
// without pointers, so the garbage collector does not have to scan them.
type version struct {
	text    arena
	nodes   paged[node]
	leaves  paged[other]
	rules   paged[record]
	literal table // literal children of nodes
	owned   table // first rules of users and plans in leaves
	order   order.Order
	domains map[string]domain
	methods map[string]uint8 // 0 means none
	terms   []*terms
	classes []classOf
	seed    maphash.Seed

	free       struct{ nodes, leaves, rules uint32 } // heads of the lists of free elements
	count      int
	garbage    int // bytes of text that no rule uses
	generation uint64
	sum        sum
}

// domain is the tree of one domain.
type domain struct {
	root  uint32
	all   int // number of rules for all users together
	apart int // number of all other rules
}

// node is a segment of patterns. The path from the root to a node is the common beginning of all
// patterns below. A node fills one cache line and has the data that most requests need, because
// each further cache line costs a tenth of a microsecond.
type node struct {
	parent   uint32
	literals uint32 // number of children that are literals
	single   uint32 // the child for {name}
	classes  uint32 // the first child that is a class; they are ordered by expression
	sibling  uint32 // the next class of the same parent, or the next free node
	more     uint32 // the first of its further leaves
	own      leaf   // the first leaf; most nodes have no other
	text     [shortText]byte
	length   uint16 // length of the text
	kind     kind
	ends     uint8 // one bit for each end of its leaves
}

// shortText is the length of the longest literal stored in the node itself. For a longer literal,
// text has the position of the text in the arena; for a class, its number.
const shortText = 12

func (n *node) number() uint32 { return binary.NativeEndian.Uint32(n.text[:]) }

func (n *node) setNumber(i uint32) { binary.NativeEndian.PutUint32(n.text[:], i) }

// empty reports whether no pattern uses the node.
func (n *node) empty() bool {
	return n.literals == 0 && n.single == 0 && n.classes == 0 && n.ends == 0
}

// leaf is a pattern with rules: one end of a node for one method. Its number is that of its node,
// or otherLeaf plus its index in leaves.
type leaf struct {
	all    uint32 // the first rule for all users together
	each   uint32 // the first rule for each user (*)
	users  uint32 // number of users with rules of their own
	plans  uint32
	url    uint32 // position of the url as spelled in one of the rules
	method uint8
	end    end
}

const otherLeaf = 1 << 31

// other is a further leaf of a node.
type other struct {
	leaf
	node uint32
	next uint32 // the next leaf of the same node, or the next free one
}

// empty reports whether the leaf has no rules.
func (l *leaf) empty() bool { return l.all == 0 && l.each == 0 && l.users == 0 && l.plans == 0 }

// record is a stored rule. Two records fill a cache line.
type record struct {
	mark      [8]byte // part of its keys after the ID, see markOf
	text      uint32  // position of the ID, followed by the uid
	url       uint32  // position of the length of the url in two bytes, followed by the url
	terms     uint32
	leaf      uint32
	next      uint32 // the rule with the next longer time in its chain, or the next free one
	idLength  uint8
	uidLength uint8
	who       who
}

// classOf is a class. All nodes with the same expression share it.
type classOf struct {
	source string
	regex  *regexp.Regexp // nil for a class of digits
}

func (c *classOf) matches(segment string) bool {
	if c.regex != nil {
		return c.regex.MatchString(segment)
	}
	for i := range len(segment) {
		if segment[i] < '0' || segment[i] > '9' {
			return false
		}
	}
	return segment != ""
}

const (
	chunkBits = 18
	chunkLen  = 1 << chunkBits
)

// arena stores all strings. It only grows, and written bytes never change.
type arena struct{ chunks []*[chunkLen]byte }

func (t *arena) at(from uint32, length int) string {
	if length == 0 {
		return ""
	}
	// Safe: bytes that were returned are never modified.
	return unsafe.String(&t.chunks[from>>chunkBits][from%chunkLen], length)
}

func (v *version) id(r *record) string { return v.text.at(r.text, int(r.idLength)) }

func (v *version) uid(r *record) string {
	return v.text.at(r.text, int(r.idLength)+int(r.uidLength))[r.idLength:]
}

func (v *version) url(at uint32) string {
	length := v.text.at(at, 2)
	return v.text.at(at+2, int(length[0])<<8|int(length[1]))
}

// leaf returns the leaf with this number.
func (v *version) leaf(i uint32) *leaf {
	if i < otherLeaf {
		return &v.nodes.at(i).own
	}
	return &v.leaves.at(i - otherLeaf).leaf
}

// literalOf returns the text of a literal node.
func (v *version) literalOf(n *node) string {
	if n.length > shortText {
		return v.text.at(n.number(), int(n.length))
	}
	return unsafe.String(&n.text[0], n.length)
}

// rule returns a rule as it was written.
func (v *version) rule(ref uint32) Rule {
	r := v.rules.at(ref)
	t := v.terms[r.terms]
	return Rule{
		ID: v.id(r), UID: v.uid(r), URL: v.url(r.url), Time: t.time, Requests: t.requests,
		Algorithm: t.algorithm, Burst: t.burst, Domain: t.domain, Policy: t.policy,
	}
}

// search returns the place of the rule with this ID, and the rule; 0 if there is none.
func (v *version) search(id string) (order.Place, uint32) {
	p := v.order.Search(func(ref uint32) bool { return v.id(v.rules.at(ref)) < id })
	if ref := v.order.At(p); ref != 0 && v.id(v.rules.at(ref)) == id {
		return p, ref
	}
	return p, 0
}

// hash returns the hash of a name within a node or leaf.
func (v *version) hash(of uint64, name string) uint32 {
	h := maphash.String(v.seed, name) ^ of*0x9e3779b97f4a7c15
	return uint32(h * 0xff51afd7ed558ccd >> 32)
}

// child returns the child of a node for a literal segment; 0 if there is none.
func (v *version) child(of uint32, segment string) uint32 {
	t := &v.literal
	if t.used == 0 {
		return 0
	}
	hash := v.hash(uint64(of), segment)
	for i := t.home(hash); ; i = t.after(i) {
		s := t.slots.at(i)
		if s.ref == 0 {
			return 0
		}
		if s.hash != hash {
			continue
		}
		if n := v.nodes.at(s.ref); n.parent == of && v.literalOf(n) == segment {
			return s.ref
		}
	}
}

// nameOf returns a number for hash that differs between users and plans of a leaf.
func nameOf(leaf uint32, w who) uint64 { return uint64(leaf)<<1 | uint64(w&1) }

// owner returns the first rule of a leaf for a user or a plan; 0 if there is none.
func (v *version) owner(leaf uint32, w who, name string) uint32 {
	t := &v.owned
	if t.used == 0 {
		return 0
	}
	hash := v.hash(nameOf(leaf, w), name)
	for i := t.home(hash); ; i = t.after(i) {
		s := t.slots.at(i)
		if s.ref == 0 {
			return 0
		}
		if s.hash != hash {
			continue
		}
		if r := v.rules.at(s.ref); r.leaf == leaf && r.who == w && v.nameIs(r, name) {
			return s.ref
		}
	}
}

// nameIs reports whether a rule is for the user or plan with this name.
func (v *version) nameIs(r *record, name string) bool {
	_, own := whose(v.uid(r))
	return own == name
}
