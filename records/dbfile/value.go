package dbfile

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
)

const checksumBytes = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(name, text []byte) uint32 {
	return crc32.Update(crc32.Checksum(name, castagnoli), castagnoli, text)
}

// ValueError says that a value is not what was written.
type ValueError struct {
	Name    string
	Problem string // completes a sentence that begins with the name
}

// Error returns the name and the problem.
func (e *ValueError) Error() string { return e.Name + " " + e.Problem }

// Encode returns the stored form of v under a name.
func Encode(name []byte, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return EncodeText(name, text), nil
}

// EncodeText returns the stored form of a value in JSON.
func EncodeText(name, text []byte) []byte {
	value := append(make([]byte, checksumBytes, checksumBytes+len(text)), text...)
	binary.LittleEndian.PutUint32(value, checksum(name, text))
	return value
}

// Text returns the JSON of a stored value, which refers to the memory of the value. The error is an
// [*ValueError].
func Text(name, value []byte) ([]byte, error) {
	if len(value) < checksumBytes || binary.LittleEndian.Uint32(value) != checksum(name, value[checksumBytes:]) {
		return nil, &ValueError{string(name), "has another checksum than was written"}
	}
	return value[checksumBytes:], nil
}

// Decode reads a stored value. The result does not refer to the memory of the value. The error is an
// [*ValueError].
func Decode[T any](name, value []byte) (T, error) {
	var v T
	text, err := Text(name, value)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return v, &ValueError{string(name), "is not a valid record"}
	}
	return v, nil
}
