package system

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
)

// Replayed is what ReplayJournal found.
type Replayed struct {
	Files, Records int

	// Torn is how many bytes at the ends of the files were not read, because the record there is cut or
	// its checksum is wrong: the process ended while it wrote them, before anybody had an answer.
	Torn int64
}

// JournalReader receives what ReplayJournal reads. An error ends the replay.
type JournalReader struct {
	Head   func(head []byte) error // of each file
	Record func(record []byte) error
}

// ReplayJournal reads all files of a name in the order in which they were written. It is called before OpenJournal. A
// file that was cut in its first bytes counts as torn.
func ReplayJournal(name string, r JournalReader) (found Replayed, err error) {
	files, err := listJournal(name)
	if err != nil {
		return found, err
	}
	for _, f := range files {
		path := journalName(name, f.number)
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
func (found *Replayed) file(b []byte, r JournalReader) error {
	left, whole := bytes.CutPrefix(b, []byte(journalMagic))
	if !whole {
		if bytes.HasPrefix([]byte(journalMagic), b) {
			found.Torn += int64(len(b))
			return nil
		}
		return fmt.Errorf("%w: it does not begin with the head of a journal", ErrJournalDamaged)
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
	if length > maxRecord || length > int64(len(b)-recordHead) {
		return nil, nil, false
	}
	record = b[recordHead : recordHead+length]
	return record, b[recordHead+length:], recordSum(b[:4], record) == binary.LittleEndian.Uint32(b[4:])
}
