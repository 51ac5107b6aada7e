package book

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"stint/rule/catalog"
)

// Format of a stored rule: a checksum of its ID and of everything that follows; its two numbers;
// its texts, each after its length.

const checksumBytes = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode appends a rule without its ID to b.
func encode(b []byte, r *catalog.Rule) []byte {
	start := len(b)
	b = append(b, make([]byte, checksumBytes)...)
	b = binary.AppendUvarint(b, r.Requests)
	b = binary.AppendUvarint(b, r.Burst)
	for _, text := range texts(r) {
		b = binary.AppendUvarint(b, uint64(len(*text)))
		b = append(b, *text...)
	}
	binary.LittleEndian.PutUint32(b[start:], checksum([]byte(r.ID), b[start+checksumBytes:]))
	return b
}

// texts returns the texts of a rule except the ID, in the order in which they are stored.
func texts(r *catalog.Rule) [6]*string {
	return [...]*string{&r.UID, &r.URL, &r.Time, &r.Algorithm, &r.Domain, &r.Policy}
}

func checksum(id, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(id, castagnoli), castagnoli, value)
}

// decode reads a rule that encode wrote. The rule does not refer to the memory of value.
func (s *Disk) decode(id, value []byte) (catalog.Rule, error) {
	r := catalog.Rule{ID: string(id)}
	if len(value) < checksumBytes || binary.LittleEndian.Uint32(value) != checksum(id, value[checksumBytes:]) {
		return r, s.damaged(fmt.Sprintf("the rule %.60q has another checksum than was written", id))
	}
	value = value[checksumBytes:]
	good := true
	number := func() uint64 {
		n, size := binary.Uvarint(value)
		if size <= 0 {
			good = false
			return 0
		}
		value = value[size:]
		return n
	}
	r.Requests, r.Burst = number(), number()
	rest := string(value) // one copy for all texts
	for _, text := range texts(&r) {
		n := number()
		at := len(rest) - len(value)
		if !good || n > uint64(len(value)) {
			return r, s.damaged(fmt.Sprintf("the rule %.60q is not a valid rule", id))
		}
		*text = rest[at : at+int(n)]
		value = value[n:]
	}
	return r, nil
}
