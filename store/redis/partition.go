package redis

import (
	"strconv"

	"stint/store/redis/redisurl"
)

// A Cluster divides all keys into slots, and a script may touch those of one slot only.
// So that the keys of a call meet, they are divided into fewer partitions: the key of a
// state begins with the tag of its partition, which alone says in which slot it lies,
// whatever braces the text of the key holds.

// slots is how many there are in every Cluster.
const slots = 16384

// DefaultPartitions is how many partitions a Cluster is divided into where Options are
// silent: few enough that takes of a busy node meet in one script, and many enough to be
// spread evenly over a dozen servers (docs/redis.md has what was measured).
const DefaultPartitions = 64

// MaxPartitions is the most there may be.
const MaxPartitions = redisurl.MaxPartitions

// tags returns the tags of n partitions, each of a slot in its nth of all slots, so that
// servers that share the slots evenly share the partitions evenly.
func tags(n int) []string {
	all := make([]string, n)
	for left, i := n, 0; left > 0; i++ {
		tag := strconv.Itoa(i)
		if p := slotOf(tag) * n / slots; all[p] == "" {
			all[p] = tag
			left--
		}
	}
	return all
}

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

// partitionOf returns the partition of a key among n: the part of all slots in which the
// key's text itself would lie.
func partitionOf(key string, n int) int { return slotOf(key) * n / slots }

// slotOf returns the slot of a text without braces: CRC-16/XMODEM, as Redis has it.
func slotOf(text string) int {
	crc := uint16(0)
	for i := range len(text) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^text[i]]
	}
	return int(crc) % slots
}

// crcTable is what each byte adds.
var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc >> 15
			crc = crc<<1 ^ 0x1021*carry
		}
		table[i] = crc
	}
	return table
}()
