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

// The keys of the entries that are looked at.
const (
	pathKey   = "path"
	methodKey = "method"
	planKey   = "plan"

	// UserKey is the key whose value says whose bucket a rule per API charges.
	UserKey = "user"
)

// Matched is what applies to one request, which may have several descriptors. The
// zero Matched is ready, and good for the next request after Reset. It belongs to one
// goroutine at a time.
type Matched struct {
	version *version
	hits    []hit
	rules   []*rule.Rule // memory
	path    []byte       // memory
	work    urlpath.Work
}

// hit is a rule that applies, and to whom.
type hit struct {
	ref   uint32
	user  string // "" for all together
	first int    // the first one that is the same
}

// Reset makes it ready for the next request.
func (m *Matched) Reset() {
	m.Release()
	clear(m.hits)
	m.hits = m.hits[:0]
	m.work = urlpath.Work{}
}

// Release lets go of the rules, so that a Matched which waits for its next request does
// not keep them in memory. What Rule returned stays; no more can be asked.
func (m *Matched) Release() { m.version = nil }

// Len returns how many rules apply.
func (m *Matched) Len() int { return len(m.hits) }

// Match adds to m the rules of a domain that apply to a descriptor, see [Rule]. All
// descriptors of one Matched are asked of the same version of the rules.
//
// Of the entries, path, method, user and plan are looked at, the first of each, in
// any order; others are passed over. Without a path nothing applies, and without a
// user only what is for all together. An empty value is as good as none, so that
// strangers never share a bucket. A path may be spelled in any way, and may have a
// query behind it; where servers may take it for others, what applies to any of these
// applies as well. A bucket that several descriptors lead to is there for each, see First.
//
// ok is false where the path may be too many others, or where the call has many such
// paths: what applies is not known then, and the request is to be denied.
//
// Nothing is allocated once m has been used, but for a path that servers may take for
// another.
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
		m.read(s, own.root, unsafe.String(unsafe.SliceData(m.path), len(m.path)), from) // nobody keeps it
		return true
	}
	readings, ok := m.work.Readings(path, c.options.Paths)
	for _, path := range readings {
		m.read(s, own.root, path, from)
	}
	return ok
}

// read adds what applies to one reading of a path. from is where the hits of the
// descriptor begin.
func (m *Matched) read(s search, root uint32, path string, from int) {
	if path == "" || path[0] != '/' {
		return // the * of OPTIONS
	}
	s.walk(root, path[1:])
	if s.foundAll != 0 {
		m.add(s.foundAll, "", from)
		m.addAll(s.nextAll, "", from)
	}
	m.addAll(s.foundApart, s.user, from)
}

// addAll adds rules of one url and uid.
func (m *Matched) addAll(first uint32, user string, from int) {
	for ref := first; ref != 0; ref = m.version.rules.at(ref).next {
		m.add(ref, user, from)
	}
}

// add adds a rule, unless the descriptor has it.
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

// First returns the number of the first rule of the same bucket, which is i itself
// unless an earlier descriptor leads to it as well.
func (m *Matched) First(i int) int { return m.hits[i].first }

// search is one walk through the tree of a domain.
type search struct {
	version    *version
	methods    [3]uint8 // of leaves, the most specific first; 0 is any and ends them
	user, plan string

	all, apart           bool // still looked for
	foundAll, foundApart uint32
	nextAll              uint32 // behind foundAll
}

// read takes what is looked at from the entries.
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

// rank returns the methods whose leaves a request may have. Those that no rule names
// have none.
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

// walk looks below a node for the rest of a path, behind a slash. It says whether all
// is found.
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

// enter goes on at a node that matched a segment.
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

// take takes what is still looked for from the leaves of an end, and says whether all
// is found.
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

// look takes it from one leaf.
func (s *search) look(i uint32, l *leaf) {
	if s.all && l.all != 0 {
		// What follows it is read here, so that it is under way while the user is looked for.
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

// longUser is the length from which a user stands in keys as the hash of his name.
const longUser = 256

// AppendKey appends to dst the bytes of the key under which a store counts rule number
// i for whom it applies to. They begin with the id of the rule and its length, so that
// no two rules share any; they do not depend on the numbers of the rule, and are the
// same on every node and after a restart. A rule with another domain, uid or url has
// others.
func (m *Matched) AppendKey(dst []byte, i int) []byte { return m.AppendKeyed(dst, i, nil) }

// AppendKeyed is AppendKey with the user under a secret, where users are hashes of secrets;
// nil: they are not.
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

// Rule returns rule number i as all others are. It stays what it is until the Matched
// is used again.
//
// Its Name and Given are its id, and its Index is -1, as it stands in no table.
func (m *Matched) Rule(i int) *rule.Rule {
	for len(m.rules) <= i {
		m.rules = append(m.rules, &rule.Rule{Index: -1})
	}
	r, one := m.rules[i], m.version.rules.at(m.hits[i].ref)
	t := m.version.terms[one.terms]
	r.Name = m.version.id(one)
	r.Given, r.Domain, r.Unit = r.Name, t.domain, t.unit
	r.Limit, r.Stored, r.Soft = t.limit, t.stored, t.soft
	r.Shadow, r.OnStoreFailure = t.shadow, t.onStoreFailure
	return r
}
