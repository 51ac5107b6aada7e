package catalog

import (
	"crypto/sha256"
	"net/http"
	"strconv"
	"strings"
	"unsafe"

	"stint/internal/urlpath"
	"stint/rule"
)

// The keys of the entries that Match reads.
const (
	pathKey   = "path"
	methodKey = "method"
	planKey   = "plan"

	// UserKey is the key of the entry with the user, whose bucket is charged.
	UserKey = "user"
)

// Matched holds the rules that apply to one request, which may have several descriptors. The zero
// Matched is ready for use; call Reset before the next request. It must not be used by several
// goroutines at once.
type Matched struct {
	version *version
	hits    []hit
	rules   []*rule.Rule // reused by Rule
	path    []byte       // buffer
	work    urlpath.Work
}

// hit is a rule that applies to a request.
type hit struct {
	ref   uint32
	user  string // "" if all users share the bucket
	first int    // index of the first hit with the same rule and user
}

// Reset prepares m for the next request.
func (m *Matched) Reset() {
	m.Release()
	clear(m.hits)
	m.hits = m.hits[:0]
	m.work = urlpath.Work{}
}

// Release drops the reference to the rules, so that an idle Matched does not keep them in memory.
// Rules returned by Rule stay valid; other methods must not be called until Reset.
func (m *Matched) Release() { m.version = nil }

// Len returns the number of rules that apply.
func (m *Matched) Len() int { return len(m.hits) }

// Match adds to m the rules of a domain that apply to a descriptor, see [Rule]. All calls between
// two Resets use the same version of the rules.
//
// Match reads the first entries with the keys path, method, user and plan, in any order, and
// ignores all others. Without a path no rule applies, and without a user only rules for all users
// together. An empty value counts as missing, so unknown users never share a bucket. The path may
// have any spelling and a query. If servers may read it in several ways, the rules of all readings
// apply. If several descriptors lead to the same bucket, it is listed for each of them, see First.
//
// ok is false if a path has too many readings, or if the call has many such paths. Then m is
// incomplete, and the caller should deny the request.
//
// Match does not allocate once m has been used, except for a path with several readings.
func (c *Catalog) Match(m *Matched, domain string, entries []rule.Entry) (ok bool) {
	if m.version == nil {
		m.version = c.current.Load()
	}
	own, ok := m.version.domains[domain]
	if !ok {
		return true
	}
	s := search{version: m.version, all: own.all > 0}
	path, method := s.read(entries)
	s.apart = own.apart > 0 && s.user != ""
	if path == "" || !s.all && !s.apart {
		return true
	}
	s.methods = s.rank(method)
	from := len(m.hits)
	if path, _, _ = strings.Cut(path, "?"); !urlpath.Unclear(path) {
		m.path = urlpath.Clean(m.path[:0], path, c.options.Paths)
		m.read(s, own.root, unsafe.String(unsafe.SliceData(m.path), len(m.path)), from) // safe: the string is not kept
		return true
	}
	readings, ok := m.work.Readings(path, c.options.Paths)
	for _, path := range readings {
		m.read(s, own.root, path, from)
	}
	return ok
}

// read adds the rules that apply to one reading of a path. from is the index of the descriptor's
// first hit.
func (m *Matched) read(s search, root uint32, path string, from int) {
	if path == "" || path[0] != '/' {
		return // such as the * of OPTIONS
	}
	s.walk(root, path[1:])
	if s.foundAll != 0 {
		m.add(s.foundAll, "", from)
		m.addAll(s.nextAll, "", from)
	}
	m.addAll(s.foundApart, s.user, from)
}

// addAll adds a chain of rules, which have the same url and uid.
func (m *Matched) addAll(first uint32, user string, from int) {
	for ref := first; ref != 0; ref = m.version.rules.at(ref).next {
		m.add(ref, user, from)
	}
}

// add adds a rule, unless it was added for this descriptor already.
func (m *Matched) add(ref uint32, user string, from int) {
	found := hit{ref: ref, user: user, first: len(m.hits)}
	for i := range m.hits {
		if h := &m.hits[i]; h.ref == ref && h.user == user {
			found.first = h.first
			break
		}
	}
	if found.first < from || found.first == len(m.hits) {
		m.hits = append(m.hits, found)
	}
}

// First returns the index of the first rule with the same bucket as rule i. It is i unless an
// earlier descriptor leads to this bucket too.
func (m *Matched) First(i int) int { return m.hits[i].first }

// search is one search in the tree of a domain.
type search struct {
	version    *version
	methods    [3]uint8 // methods of leaves to try, the most specific first; 0 is any method and the last one
	user, plan string

	all, apart           bool // still to be found
	foundAll, foundApart uint32
	nextAll              uint32 // the rule after foundAll in its chain
}

// read reads the known entries and returns path and method.
func (s *search) read(entries []rule.Entry) (path, method string) {
	for i := range entries {
		var to *string
		switch entries[i].Key {
		case pathKey:
			to = &path
		case methodKey:
			to = &method
		case UserKey:
			to = &s.user
		case planKey:
			to = &s.plan
		default:
			continue
		}
		if *to == "" {
			*to = entries[i].Value
		}
	}
	return path, method
}

// rank returns the methods of the leaves to try. A method without rules has no number.
func (s *search) rank(method string) (ranked [3]uint8) {
	n := 0
	if m, ok := s.version.methods[method]; ok {
		ranked[n] = m
		n++
	}
	if method == http.MethodHead {
		ranked[n] = s.version.methods[http.MethodGet]
	}
	return ranked
}

// walk searches below a node for the rest of a path after a slash. It reports whether everything
// was found.
func (s *search) walk(at uint32, path string) bool {
	v := s.version
	n := v.nodes.at(at)
	segment, after, more := strings.Cut(path, "/")
	if n.literals > 0 {
		if i := v.child(at, segment); i != 0 && s.enter(i, after, more) {
			return true
		}
	}
	for i := n.classes; i != 0; {
		c := v.nodes.at(i)
		if v.classes[c.number()].matches(segment) && s.enter(i, after, more) {
			return true
		}
		i = c.sibling
	}
	if segment != "" {
		if !more && s.take(at, n, one) || n.single != 0 && s.enter(n.single, after, more) {
			return true
		}
	}
	return s.take(at, n, rest)
}

// enter continues the search at a node that matched a segment.
func (s *search) enter(at uint32, after string, more bool) bool {
	n := s.version.nodes.at(at)
	switch {
	case more:
		if s.walk(at, after) {
			return true
		}
	case s.take(at, n, here):
		return true
	}
	return s.take(at, n, below)
}

// take takes the rules still to be found from the leaves with this end. It reports whether
// everything was found.
func (s *search) take(at uint32, n *node, e end) bool {
	if n.ends&(1<<e) == 0 {
		return false
	}
	for _, method := range s.methods {
		if n.own.end == e && n.own.method == method {
			s.look(at, &n.own)
		}
		for i := n.more; i != 0; {
			l := s.version.leaves.at(i)
			if l.end == e && l.method == method {
				s.look(i|otherLeaf, &l.leaf)
			}
			i = l.next
		}
		if method == 0 {
			break
		}
	}
	return !s.all && !s.apart
}

// look takes the rules still to be found from one leaf.
func (s *search) look(i uint32, l *leaf) {
	if s.all && l.all != 0 {
		// Read the next rule here already, so that the memory access overlaps with the search for
		// the user.
		s.foundAll, s.all, s.nextAll = l.all, false, s.version.rules.at(l.all).next
	}
	if !s.apart {
		return
	}
	if l.users > 0 {
		s.foundApart = s.version.owner(i, user, s.user)
	}
	if s.foundApart == 0 && l.plans > 0 && s.plan != "" {
		s.foundApart = s.version.owner(i, plan, s.plan)
	}
	if s.foundApart == 0 {
		s.foundApart = l.each
	}
	s.apart = s.foundApart == 0
}

// longUser is the length of a user name above which keys contain its hash.
const longUser = 256

// AppendKey appends to dst the key of the bucket of rule i and its user. The key begins with the
// length and the ID of the rule, so rules never share a bucket. It does not depend on the numbers
// of the rule, and is the same on every node and after a restart. A rule with a new domain, uid or
// url has new keys.
func (m *Matched) AppendKey(dst []byte, i int) []byte { return m.AppendKeyed(dst, i, nil) }

// AppendKeyed is AppendKey with the user hashed with a secret. Pass the secret if users are hashes
// of secrets, otherwise nil.
func (m *Matched) AppendKeyed(dst []byte, i int, secret *rule.KeySecret) []byte {
	h := &m.hits[i]
	r := m.version.rules.at(h.ref)
	dst = strconv.AppendUint(dst, uint64(r.idLength), 10)
	dst = append(append(dst, ':'), m.version.id(r)...)
	dst = append(dst, r.mark[:]...)
	if secret != nil && h.user != "" {
		return secret.Append(dst, h.user)
	}
	if len(h.user) > longUser {
		hash := sha256.Sum256([]byte(h.user))
		return append(append(dst, '#'), hash[:]...)
	}
	if h.user == "" {
		return dst
	}
	return append(append(dst, ':'), h.user...)
}

// Rule returns rule i in the form of rules from files. It is valid until m is used for the next
// request.
//
// Its Name and Given are its ID. Its Index is -1, because it is in no table.
func (m *Matched) Rule(i int) *rule.Rule {
	for len(m.rules) <= i {
		m.rules = append(m.rules, &rule.Rule{Index: -1})
	}
	m.version.fill(m.rules[i], m.hits[i].ref)
	return m.rules[i]
}

// fill sets the fields of a rule in the form of rules from files.
func (v *version) fill(r *rule.Rule, ref uint32) {
	one := v.rules.at(ref)
	t := v.terms[one.terms]
	r.Name = v.id(one)
	r.Given, r.Domain, r.Unit = r.Name, t.domain, t.unit
	r.Limit, r.Stored, r.Soft = t.limit, t.stored, t.soft
	r.Shadow, r.OnStoreFailure = t.shadow, t.onStoreFailure
}

// Rule returns the rule with this ID in the form of rules from files.
func (c *Catalog) Rule(id string) (r *rule.Rule, ok bool) {
	v := c.current.Load()
	_, ref := v.search(id)
	if ref == 0 {
		return nil, false
	}
	r = &rule.Rule{Index: -1}
	v.fill(r, ref)
	return r, true
}
