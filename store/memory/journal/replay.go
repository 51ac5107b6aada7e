package journal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
)

// Replayed is what Replay found.
type Replayed struct {
	Files, Records int

	// Torn is how many bytes at the ends of the files were not read, because the record there is cut or
	// its checksum is wrong: the process ended while it wrote them, before anybody had an answer.
	Torn int64
}

// Reader receives what Replay reads. An error ends the replay.
type Reader struct {
	Head   func(head []byte) error // of each file
	Record func(record []byte) error
}

// Replay reads all files of a name in the order in which they were written. It is called before Open. A
// file that was cut in its first bytes counts as torn.
func Replay(name string, r Reader) (found Replayed, err error) {
	files, err := list(name)
	if err != nil {
		return found, err
	}
	for _, f := range files {
		path := fileName(name, f.number)
		b, err := os.ReadFile(path)
		if err != nil {
			return found, err
		}
		found.Files++
		if err := found.file(b, r); err != nil {
			return found, fmt.Errorf("%s: %w", path, err)
		}
	}
	return found, nil
}

// file reads one file.
func (found *Replayed) file(b []byte, r Reader) error {
	left, whole := bytes.CutPrefix(b, []byte(magic))
	if !whole {
		if bytes.HasPrefix([]byte(magic), b) {
			found.Torn += int64(len(b))
			return nil
		}
		return fmt.Errorf("%w: it does not begin with the head of a journal", ErrDamaged)
	}
	read, records := r.Head, 0
	for len(left) > 0 {
		record, rest, ok := cut(left)
		if !ok {
			found.Torn += int64(len(left))
			return nil
		}
		if err := read(record); err != nil {
			return err
		}
		found.Records += records
		left, read, records = rest, r.Record, 1
	}
	return nil
}

// cut returns the first record and the bytes after it. It returns false if the record is not whole.
func cut(b []byte) (record, rest []byte, ok bool) {
	if len(b) < recordHead {
		return nil, nil, false
	}
	length := int64(binary.LittleEndian.Uint32(b))
	if length > MaxRecord || length > int64(len(b)-recordHead) {
		return nil, nil, false
	}
	record = b[recordHead : recordHead+length]
	return record, b[recordHead+length:], sum(b[:4], record) == binary.LittleEndian.Uint32(b[4:])
}
