package records

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"time"
)

// Format of a stored value: a checksum of its name and of everything that follows; the value in
// JSON. The value of a record is a stored.

const checksumBytes = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(name, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(name, castagnoli), castagnoli, value)
}

// stored is a record of type R in the file.
type stored[R any] struct {
	Revision uint64    `json:"revision"`
	Changed  time.Time `json:"changed"`
	Record   R         `json:"record"`
}

// entry converts a stored record.
func entry[R Record](v stored[R]) Entry { return Entry{v.Record, v.Revision, v.Changed} }

// encode returns the stored form of v under a name.
func encode(name []byte, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	value := append(make([]byte, checksumBytes, checksumBytes+len(text)), text...)
	binary.LittleEndian.PutUint32(value, checksum(name, text))
	return value, nil
}

// decode reads a value that encode wrote. The result does not refer to the memory of value.
func decode[T any](f *File, name, value []byte) (T, error) {
	var v T
	if err := f.checkSum(name, value); err != nil {
		return v, err
	}
	if err := json.Unmarshal(value[checksumBytes:], &v); err != nil {
		return v, f.damaged("the record " + shorten(string(name)) + " is not a valid record")
	}
	return v, nil
}

// checkSum checks the checksum of a value that encode wrote.
func (f *File) checkSum(name, value []byte) error {
	if len(value) < checksumBytes || binary.LittleEndian.Uint32(value) != checksum(name, value[checksumBytes:]) {
		return f.damaged("the record " + shorten(string(name)) + " has another checksum than was written")
	}
	return nil
}

// recordText returns the JSON of the record in a stored value; nil if value is nil. It refers to the
// memory of value.
func recordText(value []byte) json.RawMessage {
	_, text, _ := bytes.Cut(value, []byte(`"record":`))
	return bytes.TrimSuffix(text, []byte("}"))
}

// decodeEntry reads a record of a kind.
func (f *File) decodeEntry(kind Kind, name, value []byte) (Entry, error) {
	switch kind {
	case Subjects:
		v, err := decode[stored[Subject]](f, name, value)
		return entry(v), err
	case Overrides:
		v, err := decode[stored[Override]](f, name, value)
		return entry(v), err
	case Bans:
		v, err := decode[stored[Ban]](f, name, value)
		return entry(v), err
	default:
		v, err := decode[stored[APIKey]](f, name, value)
		return entry(v), err
	}
}
