package rulefile

import (
	"fmt"
	"slices"
	"strings"

	"stint/internal/strictyaml"
	"stint/rule"
)

// readShardBy reads `shard_by`: user or [user, api].
func (l *limit) readShardBy(v strictyaml.Value) {
	for _, element := range v.OneOrList() {
		l.shardBy = append(l.shardBy, element.Text())
	}
	if len(l.shardBy) == 0 {
		l.fail(v, "shard_by names nothing", "name one or several keys of the descriptors on the way here, such as user")
	}
}

// placeBy sets the keys of the entries that choose the place of the rule's buckets.
func (l *limit) placeBy(r *rule.Rule) {
	keys := make([]string, len(r.Path))
	for i, level := range r.Path {
		keys[i] = level.Key
	}
	for _, name := range l.shardBy {
		if !slices.Contains(keys, name) {
			l.said["shard_by"].Fail(fmt.Sprintf("shard_by: %q is no key on the way to this limit", name), "name some of: "+strings.Join(keys, ", "))
		}
	}
	r.ShardBy = l.shardBy
}
