package rule

import (
	"fmt"
	"slices"
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
	keys := make([]string, len(r.Path))
	for i, level := range r.Path {
		keys[i] = level.Key
		if slices.Contains(l.shardBy, level.Key) {
			r.placed = append(r.placed, i)
		}
	}
	for _, name := range l.shardBy {
		if !slices.Contains(keys, name) {
			l.said["shard_by"].Fail(fmt.Sprintf("shard_by: %q is no key on the way to this limit", name), "name some of: "+strings.Join(keys, ", "))
		}
	}
	r.ShardBy = l.shardBy
}

// scattered says whether values that share a bucket may be placed apart.
func (r *Rule) scattered() bool {
	return slices.ContainsFunc(r.placed, func(i int) bool { return r.Path[i].Wildcard && !slices.Contains(r.varies, i) })
}

// AppendPlace appends to dst what says where a key of the rule stands in a store of
// several servers or partitions (see stint.Take): the entries that `shard_by` names,
// so that all limits of one user can meet on one server. Nothing where the rule is
// silent: then the whole key says it.
func (r *Rule) AppendPlace(dst []byte, entries []Entry) []byte {
	for _, i := range r.placed {
		dst = AppendEntry(dst, entries[i].Key, entries[i].Value)
	}
	return dst
}
