package connect

import "strconv"

// Count is the number of slots of every Cluster.
const Count = 16384

// Tags returns the tags of n partitions. The slot of the nth tag lies in the nth part of all slots,
// so that servers that share the slots evenly share the partitions evenly.
func Tags(n int) []string {
	all := make([]string, n)
	for left, i := n, 0; left > 0; i++ {
		tag := strconv.Itoa(i)
		if p := SlotOf(tag) * n / Count; all[p] == "" {
			all[p] = tag
			left--
		}
	}
	return all
}

// PartitionOf returns the partition of a key among n: the part of all slots that contains the slot
// of the key's text.
func PartitionOf(key string, n int) int { return SlotOf(key) * n / Count }

// SlotOf returns the slot of a text without braces, as Redis computes it: CRC-16/XMODEM.
func SlotOf(text string) int {
	crc := uint16(0)
	for i := range len(text) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^text[i]]
	}
	return int(crc) % Count
}

// crcTable is the CRC of each byte.
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

// KeyPrefixes returns the prefix of all keys of each partition, one prefix without tags.
func KeyPrefixes(namespace string, tags []string) []string {
	if tags == nil {
		return []string{namespace + ":"}
	}
	var all []string
	for _, tag := range tags {
		all = append(all, namespace+":{"+tag+"}:")
	}
	return all
}
