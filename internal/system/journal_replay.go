package system

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
)

// Replayed is what ReplayJournal found.
type Replayed struct {
	Files, Records int
	First, Last    uint64 // numbers of the first and the last file; 0: there is none

	// Damaged reports that records are missing which had an answer: a file between others is gone, or one
	// is empty, is damaged before its last write, or lacks a write between others.
	Damaged bool

	// Torn is how many bytes at the ends of the files were not read, because the record there is cut or
	// its checksum is wrong: the process ended while it wrote them, before anybody had an answer.
	Torn int64
}

// JournalReader receives what ReplayJournal reads. An error ends the replay.
type JournalReader struct {
	Head   func(head []byte) error // of each file
	Record func(record []byte) error

	// From is the number of the first file whose records are of use. Those before it, which a crash left before drop
	// removed them, are not read behind their heads.
	From uint64
}

// ReplayJournal reads all files of a name in the order in which they were written. It is called before OpenJournal. No
// crash leaves a file that was cut in its first bytes, see Journal.begin.
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
		found.Damaged = found.Damaged || found.Files > 0 && f.number != found.Last+1
		if found.Files++; found.Files == 1 {
			found.First = f.number
		}
		found.Last = f.number
		if err := found.file(b, r, f.number < r.From); err != nil {
			return found, fmt.Errorf("%s: %w", path, err)
		}
	}
	return found, nil
}

// file reads one file, of an old one its head alone.
func (found *Replayed) file(b []byte, r JournalReader, old bool) error {
	left, whole := bytes.CutPrefix(b, []byte(journalMagic))
	if !whole {
		if bytes.HasPrefix([]byte(journalMagic), b) {
			found.Torn, found.Damaged = found.Torn+int64(len(b)), found.Damaged || !old
			return nil
		}
		return fmt.Errorf("%w: it does not begin with the head of a journal", ErrJournalDamaged)
	}
	read, records, last := r.Head, 0, uint32(0)
	for len(left) > 0 && !(old && records > 0) {
		record, rest, write, ok := cutRecord(left)
		if !ok {
			found.Torn += int64(len(left))
			found.Damaged = found.Damaged || !old && laterWrite(left, writeOf(left, last+1))
			return nil
		}
		if err := read(record); err != nil {
			return err
		}
		found.Damaged = found.Damaged || records > 0 && write != last && write != last+1
		found.Records += records
		left, read, records, last = rest, r.Record, 1, write
	}
	return nil
}

// writeOf returns the number of the write of the first record, also if its content is not whole. If its head is not
// whole it returns unknown, the last number that it may have.
func writeOf(b []byte, unknown uint32) uint32 {
	if !wholeHead(b) {
		return unknown
	}
	return binary.LittleEndian.Uint32(b[4:])
}

// wholeHead reports whether bytes begin with the head of a record.
func wholeHead(b []byte) bool {
	return len(b) >= recordHead && crc32.Checksum(b[:8], castagnoli) == binary.LittleEndian.Uint32(b[8:])
}

// cutRecord returns the first record with the number of its write, and the bytes after it. It returns false if
// the record is not whole.
func cutRecord(b []byte) (record, rest []byte, write uint32, ok bool) {
	if !wholeHead(b) {
		return nil, nil, 0, false
	}
	length := int64(binary.LittleEndian.Uint32(b))
	if length > maxRecord || length > int64(len(b)-recordHead) {
		return nil, nil, 0, false
	}
	record = b[recordHead : recordHead+length]
	ok = crc32.Checksum(record, castagnoli) == binary.LittleEndian.Uint32(b[12:])
	return record, b[recordHead+length:], binary.LittleEndian.Uint32(b[4:]), ok
}

// laterWrite reports whether there is a record of a write after that one behind the first byte.
func laterWrite(b []byte, write uint32) bool {
	for at := 1; at+recordHead <= len(b); at++ {
		if _, _, of, ok := cutRecord(b[at:]); ok && of > write {
			return true
		}
	}
	return false
}
