package redis

import "stint/store/redis/connect"

// A Cluster divides all keys into slots, and a script may use keys of one slot only. To make the
// keys of a call lie together, Store divides them into fewer partitions: a key begins with the tag
// of its partition, in braces, which alone decides the slot, whatever braces the rest of the key
// contains.

// DefaultPartitions is the number of partitions of a Cluster if Options set none: few enough that
// the takes of a busy node are sent in one script, and enough to spread evenly over a dozen servers
// (docs/redis.md has the measurements).
const DefaultPartitions = 64

// MaxPartitions is the largest number of partitions.
const MaxPartitions = connect.MaxPartitions
