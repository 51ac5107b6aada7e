package book

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"stint/rule/catalog"
)

// A rule is written as a checksum of its id and all that follows, its two numbers, and
// its texts, each after its length.

const checksumBytes = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode appends a rule to b, without its id.
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

// texts are the texts of a rule but its id, in the order in which they are written.
func texts(r *catalog.Rule) [6]*string {
	return [...]*string{&r.UID, &r.URL, &r.Time, &r.Algorithm, &r.Domain, &r.Policy}
}

func checksum(id, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(id, castagnoli), castagnoli, value)
}

// decode reads a rule that encode has written. Nothing of it is part of value.
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
			return r, s.damaged(fmt.Sprintf("the rule %.60q is no rule", id))
		}
		*text = rest[at : at+int(n)]
		value = value[n:]
	}
	return r, nil
}
