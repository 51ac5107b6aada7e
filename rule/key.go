package rule

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The key of rule api/user for the value 42 is
//
//	r api/user | 2:42      (without the blanks)
//
// First comes the identity of the rule: its domain and the path of its node, with special
// characters escaped, and the limit's name or number if the node has several limits. An unescaped
// bar ends the identity. Then come the values that the rule leaves open, each after its length.
// So two different pairs of rule and values never give the same bytes.

const (
	// longValue is the length in bytes from which a value is replaced by its SHA-256.
	longValue = 256
	// longIdentity is the same for the identity of a rule.
	longIdentity = 512
)

var escapes = strings.NewReplacer(`\`, `\\`, `/`, `\/`, `=`, `\=`, `~`, `\~`, `#`, `\#`, `@`, `\@`, `|`, `\|`)

// identify sets the fields that AppendKey and AppendPlace read. The numbers of a limit are not part of the key, so a key keeps its state
// when they change. A limit with a name keeps its state when other limits are added before it.
func (r *Rule) identify() {
	var b strings.Builder
	b.WriteString(escapes.Replace(r.Domain))
	for i, l := range r.Path {
		b.WriteByte('/')
		b.WriteString(escapes.Replace(l.Key))
		switch {
		case l.Wildcard:
			b.WriteByte('~')
		case l.Value != "":
			b.WriteByte('=')
		}
		b.WriteString(escapes.Replace(l.Value))
		if l.Varies() {
			r.varies = append(r.varies, i)
		}
		if slices.Contains(r.ShardBy, l.Key) {
			r.placed = append(r.placed, i)
		}
	}
	suffix := ""
	if r.Plan != nil {
		suffix = r.placeSuffix()
	}
	switch {
	case r.Given != "":
		b.WriteString("@" + escapes.Replace(r.Given))
	case r.Position > 0 || suffix != "":
		b.WriteString("#" + strconv.Itoa(r.Position))
	}
	b.WriteString(suffix)
	r.identity = "r" + b.String() + "|"
	if len(r.identity) > longIdentity {
		sum := sha256.Sum256([]byte(r.identity))
		r.identity = "h" + string(sum[:])
	}
}

// AppendKey appends to dst the key under which a store counts the rule for these entries. The
// rule must match them. Different pairs of rule and values have different keys, except values
// that share a counter (see [Level]). The key does not depend on the numbers of the limit, and is
// the same after a reload and on every node. It begins with r or h. A value of more than 256
// bytes is replaced by its SHA-256, so a key has at most 512 bytes and 261 for each entry.
func (r *Rule) AppendKey(dst []byte, entries []Entry) []byte {
	return r.AppendKeyed(dst, entries, nil)
}

// AppendCandidate appends to dst the key of the rule's candidate for these entries. It begins with a
// hash of the candidate's numbers, so that another candidate starts unused, and goes on like the key of
// the rule.
func (r *Rule) AppendCandidate(dst []byte, entries []Entry, secret *KeySecret) []byte {
	return r.AppendKeyed(append(dst, r.Candidate.identity...), entries, secret)
}

// SetCandidate sets the candidate, a copy of the rule with other limits and terms of its own, which get the
// name by which nodes know it.
func (r *Rule) SetCandidate(c *Rule) {
	s := c.Limit.Spec()
	zone := ""
	if s.Zone != nil {
		zone, s.Zone = s.Zone.String(), nil
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%+v %s", s, zone))
	c.identity = hex.EncodeToString(sum[:6]) + "|"
	c.Terms.Rule, c.Terms.Candidate = r.Name+" candidate "+strings.TrimSuffix(c.identity, "|"), true
	r.Candidate = c
}

func appendValue(dst []byte, value string) []byte {
	if len(value) > longValue {
		sum := sha256.Sum256([]byte(value))
		return append(append(dst, '#'), sum[:]...)
	}
	dst = strconv.AppendUint(dst, uint64(len(value)), 10)
	dst = append(dst, ':')
	return append(dst, value...)
}

// AppendEntry appends to dst an entry in the form that keys use: two different lists of entries
// never give the same bytes.
func AppendEntry(dst []byte, key, value string) []byte {
	return appendValue(appendValue(dst, key), value)
}

// AppendEntries appends to dst a domain and entries in the form that keys use.
func AppendEntries(dst []byte, domain string, entries []Entry) []byte {
	dst = AppendEntry(dst, domain, "")
	for _, e := range entries {
		dst = AppendEntry(dst, e.Key, e.Value)
	}
	return dst
}
