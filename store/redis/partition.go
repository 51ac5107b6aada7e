package redis

import "stint/store/redis/connect"

// A Cluster divides all keys into slots, and a script may touch those of one slot only.
// So that the keys of a call meet, they are divided into fewer partitions: the key of a
// state begins with the tag of its partition, which alone says in which slot it lies,
// whatever braces the text of the key holds.

// DefaultPartitions is how many partitions a Cluster is divided into where Options are
// silent: few enough that takes of a busy node meet in one script, and many enough to be
// spread evenly over a dozen servers (docs/redis.md has what was measured).
const DefaultPartitions = 64

// MaxPartitions is the most there may be.
const MaxPartitions = connect.MaxPartitions

// wheres returns what the names of all keys of each partition begin with; without tags
// there is one.
func wheres(namespace string, tags []string) []string {
	if tags == nil {
		return []string{namespace + ":"}
	}
	var all []string
	for _, tag := range tags {
		all = append(all, namespace+":{"+tag+"}:")
	}
	return all
}
