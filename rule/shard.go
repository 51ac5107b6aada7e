package rule

import (
	"fmt"
	"math/bits"
	"strings"

	"stint/internal/strictyaml"
)

// readShardBy reads by what the keys of a limit are placed, such as user or
// [user, api].
func (l *limit) readShardBy(v strictyaml.Value) {
	for _, element := range v.OneOrList() {
		l.shardBy = append(l.shardBy, element.Text())
	}
	if len(l.shardBy) == 0 {
		l.fail(v, "shard_by names nothing", "name one or several keys of the descriptors on the way here, such as user")
	}
}

// placeBy sets by which entries the keys of the rule are placed.
func (l *limit) placeBy(r *Rule) {
	for _, name := range l.shardBy {
		found := false
		keys := make([]string, len(r.Path))
		for i, level := range r.Path {
			keys[i] = level.Key
			if level.Key == name {
				found = true
				r.placed |= 1 << i
			}
		}
		if !found {
			l.said["shard_by"].Fail(fmt.Sprintf("shard_by: %q is no key on the way to this limit", name), "name some of: "+strings.Join(keys, ", "))
		}
	}
	r.ShardBy = l.shardBy
}

// AppendPlace appends to dst what says where a key of the rule stands in a store of
// several servers or partitions (see stint.Take): the entries that `shard_by` names,
// so that all limits of one user can meet on one server. Nothing where the rule is
// silent: then the whole key says it.
func (r *Rule) AppendPlace(dst []byte, entries []Entry) []byte {
	for rest := r.placed; rest != 0; rest &= rest - 1 {
		e := &entries[bits.TrailingZeros64(rest)]
		dst = AppendEntry(dst, e.Key, e.Value)
	}
	return dst
}
