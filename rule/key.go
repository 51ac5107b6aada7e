package rule

import (
	"crypto/sha256"
	"slices"
	"strconv"
	"strings"
)

// A key of the rule api/user for the value 42 reads
//
//	r api/user | 2:42      (without the blanks)
//
// The identity of the rule comes first: its domain and the way to its node, with
// the characters that have a meaning here escaped, and the name or the number of
// the limit where the node has several. An unescaped bar ends it. Then follow the
// values that the file leaves open, each after its length. So no two pairs of rule
// and values give the same bytes, whatever the values hold.

const (
	// longValue is the length from which a value stands in keys as its SHA-256.
	longValue = 256
	// longIdentity is the same for the identity of a rule.
	longIdentity = 512
)

var escapes = strings.NewReplacer(`\`, `\\`, `/`, `\/`, `=`, `\=`, `~`, `\~`, `#`, `\#`, `@`, `\@`, `|`, `\|`)

// identify sets what AppendKey and AppendPlace read. index is its position among
// the limits of its node. The numbers of the limit take no part, so that a key
// keeps its state when they change; a limit with a name of its own keeps it when
// others are put before it.
func (r *Rule) identify(index int) {
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
	switch {
	case r.Given != "":
		b.WriteString("@" + escapes.Replace(r.Given))
	case index > 0:
		b.WriteString("#" + strconv.Itoa(index))
	}
	r.identity = "r" + b.String() + "|"
	if len(r.identity) > longIdentity {
		sum := sha256.Sum256([]byte(r.identity))
		r.identity = "h" + string(sum[:])
	}
}

// AppendKey appends to dst the bytes of the key under which a store counts the rule
// for entries that it matched. They differ for any two different pairs of rule and
// values (values that share a counter, see [Level], are the same), they do not
// depend on the numbers of the limit, and they are the same after a reload and on
// every node. All begin with r or h; values of more than 256 bytes stand in them as
// their SHA-256, so no key is longer than 512 bytes and 261 for each entry.
func (r *Rule) AppendKey(dst []byte, entries []Entry) []byte {
	return r.AppendKeyed(dst, entries, nil)
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

// AppendEntry appends to dst the bytes of an entry as they stand in keys: no two
// lists of entries give the same.
func AppendEntry(dst []byte, key, value string) []byte {
	return appendValue(appendValue(dst, key), value)
}
