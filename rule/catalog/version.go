package catalog

import (
	"encoding/binary"
	"hash/maphash"
	"regexp"
	"unsafe"
)

// version is all rules at one moment. It is immutable; the next one shares with it
// what did not change. Rules, nodes and leaves have numbers, 0 being none, and stand
// in arrays without pointers, so that the garbage collector has nothing to look at.
type version struct {
	text    arena
	nodes   paged[node]
	leaves  paged[other]
	rules   paged[record]
	literal table // of the literal children of nodes
	owned   table // of the first rules of users and plans in leaves
	order   order
	domains map[string]domain
	methods map[string]uint8 // 0 is none
	terms   []*terms
	classes []classOf
	seed    maphash.Seed

	free       struct{ nodes, leaves, rules uint32 } // the first of each list
	count      int
	garbage    int // bytes of text that no rule needs
	generation uint64
	sum        sum
}

// domain is the tree of one domain.
type domain struct {
	root  uint32
	all   int // how many rules are for all together
	apart int // how many are for somebody
}

// node is a segment of patterns. The segments from the root on are those of all
// patterns that go through it. It is one line of a cache, and holds what most requests
// look for, since each look at another line costs them a tenth of a microsecond.
type node struct {
	parent   uint32
	literals uint32 // how many of its children are literals
	single   uint32 // the child for {name}
	classes  uint32 // the first child of a class, in the order of their expressions
	sibling  uint32 // the next such child of the parent, or the next free node
	more     uint32 // the first of its other leaves
	own      leaf   // most nodes have one at most
	text     [shortText]byte
	length   uint16 // of the text
	kind     kind
	ends     uint8 // a bit for each end that leaves have
}

// shortText is the longest literal that stands in its node. Of a longer one there is
// where it begins in the text of the version, and of a class its number.
const shortText = 12

func (n *node) number() uint32 { return binary.NativeEndian.Uint32(n.text[:]) }

func (n *node) setNumber(i uint32) { binary.NativeEndian.PutUint32(n.text[:], i) }

// empty reports whether no pattern goes through a node.
func (n *node) empty() bool {
	return n.literals == 0 && n.single == 0 && n.classes == 0 && n.ends == 0
}

// leaf is a pattern that rules have: one end of a node for one method. Its number is
// that of the node which owns it, or otherLeaf and its place among the others.
type leaf struct {
	all    uint32 // the first rule for all together
	each   uint32 // the first rule for everybody by himself
	users  uint32 // how many users have rules of their own
	plans  uint32
	url    uint32 // as one of the rules has it
	method uint8
	end    end
}

const otherLeaf = 1 << 31

// other is a leaf of a node that has several.
type other struct {
	leaf
	node uint32
	next uint32 // of the same node, or the next free one
}

// empty reports whether a leaf has no rule.
func (l *leaf) empty() bool { return l.all == 0 && l.each == 0 && l.users == 0 && l.plans == 0 }

// record is a rule. Two are a line of a cache.
type record struct {
	mark      [8]byte // what its keys hold beside its id: another domain, uid or url is another bucket
	text      uint32  // its id, and behind it its uid
	url       uint32  // its length in two bytes, and the url
	terms     uint32
	leaf      uint32
	next      uint32 // the one with the next longer time for the same users, or the next free one
	idLength  uint8
	uidLength uint8
	who       who
}

// classOf is a class, shared by all nodes that have it.
type classOf struct {
	source string
	regex  *regexp.Regexp // nil for digits
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

// arena is where all strings are. It only grows; what is read never changes.
type arena struct{ chunks []*[chunkLen]byte }

func (t *arena) at(from uint32, length int) string {
	if length == 0 {
		return ""
	}
	// Nobody ever writes to bytes that were handed out.
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

// leaf returns the leaf of that number.
func (v *version) leaf(i uint32) *leaf {
	if i < otherLeaf {
		return &v.nodes.at(i).own
	}
	return &v.leaves.at(i - otherLeaf).leaf
}

// literalOf returns the text of a literal.
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

// search returns the place of the rule of that id, and the rule, 0 if there is none.
func (v *version) search(id string) (place, uint32) {
	p := v.order.search(func(ref uint32) bool { return v.id(v.rules.at(ref)) < id })
	if ref := v.order.at(p); ref != 0 && v.id(v.rules.at(ref)) == id {
		return p, ref
	}
	return p, 0
}

// hash returns the hash of a name that belongs to a node or leaf.
func (v *version) hash(of uint64, name string) uint32 {
	h := maphash.String(v.seed, name) ^ of*0x9e3779b97f4a7c15
	return uint32(h * 0xff51afd7ed558ccd >> 32)
}

// child returns the child of a node for a literal segment, 0 if there is none.
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

// nameOf tells the users of a leaf from its plans.
func nameOf(leaf uint32, w who) uint64 { return uint64(leaf)<<1 | uint64(w&1) }

// owner returns the first rule of a leaf for a user or a plan, 0 if there is none.
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

// nameIs reports whether a rule is for the user or plan of that name.
func (v *version) nameIs(r *record, name string) bool {
	_, own := whose(v.uid(r))
	return own == name
}
