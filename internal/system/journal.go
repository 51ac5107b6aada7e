package system

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// A file has a head, then records until its end.
//
//	head    "stintjnl", the version in 4 bytes (little-endian, as all numbers), a record with the head of
//	        the owner
//	record  length of the content, number of the write that it was a part of, CRC-32 (Castagnoli) of these
//	        two, CRC-32 of the content, each in 4 bytes; content
//
// So a reader finds whole records behind one that is not, and tells a write that was cut, which nobody had an
// answer to, from a file that was damaged later: behind that are records of later writes.
const (
	journalMagic = "stintjnl\x01\x00\x00\x00"
	recordHead   = 16

	// maxRecord is the largest record in bytes.
	maxRecord = 16 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrJournalClosed is the error of a journal that was closed.
var ErrJournalClosed = errors.New("the journal is closed")

// ErrJournalDamaged means that a file is no journal, or that of another owner.
var ErrJournalDamaged = errors.New("damaged journal")

// Journal is a list of files NAME.journal-N, of which the last is written. All records of several callers
// that wait at the same time are written and synced at once (group commit). After a failed write no
// record is accepted until Rotate has begun a new file, because the disk may have any part of the failed
// one. It is safe for concurrent use. Use OpenJournal to make one.
type Journal struct {
	name string
	head []byte
	kick chan struct{} // wakes the writer
	stop chan struct{} // ends the writer
	file *os.File      // written by the writer alone, or under fileMu

	fileMu sync.Mutex // held while the file is written or replaced; before mu

	mu      sync.Mutex // guards the fields below
	next    *batch     // records that are not being written yet
	current *batch     // records that were written last, or are being written
	number  uint64     // of the file
	writes  uint32     // number of the next write
	size    int64      // bytes of all files
	err     error      // why the journal accepts no records
	closed  bool
}

// batch are records that are written at once.
type batch struct {
	bytes []byte
	done  chan struct{} // closed after the write
	err   error         // set before done is closed
}

func newBatch() *batch { return &batch{done: make(chan struct{})} }

// OpenJournal begins a new file after the files of a name, which stay until Rotate's drop, and after those with numbers
// up to after, which may be gone. head is written at the start of each file: the owner reads it back in ReplayJournal.
// The caller must close the journal.
func OpenJournal(name string, after uint64, head []byte) (*Journal, error) {
	files, err := listJournal(name)
	if err != nil {
		return nil, err
	}
	j := &Journal{name: name, head: head, kick: make(chan struct{}, 1), stop: make(chan struct{}), writes: 1, next: newBatch(), current: newBatch()}
	close(j.current.done)
	j.number = after
	for _, f := range files {
		j.number, j.size = max(j.number, f.number), j.size+f.size
	}
	if err := j.begin(); err != nil {
		return nil, err
	}
	go j.run()
	return j, nil
}

// begin begins the next file. The file has its name when its head is on disk, so that one without a head is damaged
// and not the trace of a crash. The caller holds fileMu, or is alone.
func (j *Journal) begin() error {
	number := j.number + 1
	name := journalName(j.name, number)
	j.mu.Lock()
	first := appendRecord([]byte(journalMagic), j.writes-1, j.head)
	j.mu.Unlock()
	err := ReplaceFile(name, func(w io.Writer) error {
		_, err := w.Write(first)
		return err
	})
	if err != nil {
		return j.undo(name, err)
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return j.undo(name, err)
	}
	if j.file != nil {
		_ = j.file.Close() // what it has is synced, or its callers have an error
	}
	j.file = f
	j.mu.Lock()
	j.number, j.size = number, j.size+int64(len(first))
	j.mu.Unlock()
	return nil
}

// undo removes a file that could not begin, if it is there, and returns why it could not.
func (j *Journal) undo(name string, why error) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(why, err)
	}
	return why
}

// appendRecord appends a record of a write, with its checksums.
func appendRecord(b []byte, write uint32, content []byte) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(content)))
	b = binary.LittleEndian.AppendUint32(b, write)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[at:], castagnoli))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(content, castagnoli))
	return append(b, content...)
}

// Append adds a record, which the journal copies, to those that the next Sync waits for. It does not
// wait for the disk. The records of one key must be appended in the order of its changes.
func (j *Journal) Append(record []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(record) > maxRecord {
		j.failLocked(fmt.Errorf("a record of %d bytes, and at most %d are allowed", len(record), maxRecord))
	}
	if j.err == nil {
		j.next.bytes = appendRecord(j.next.bytes, j.writes, record)
	}
}

// Err returns why the journal accepts no records; nil if it does.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// Number returns the number of the file that is written. Rotate begins the next one.
func (j *Journal) Number() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.number
}

// Size returns how many bytes the files have.
func (j *Journal) Size() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.size
}

// Sync waits until all records that were appended before are on disk, or until ctx is done. After an
// error they may be there or not.
func (j *Journal) Sync(ctx context.Context) error {
	j.mu.Lock()
	b, err, waits := j.current, j.err, len(j.next.bytes) > 0
	if waits {
		b = j.next
	}
	j.mu.Unlock()
	if err != nil {
		return err
	}
	if waits { // else there is nothing to write, or it is being written
		select {
		case j.kick <- struct{}{}:
		default: // the writer is told already
		}
	}
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run writes batches until the journal is closed.
func (j *Journal) run() {
	for {
		select {
		case <-j.kick:
		case <-j.stop:
			return
		}
		j.fileMu.Lock()
		j.write()
		j.fileMu.Unlock()
	}
}

// write writes what was appended and syncs it. The caller holds fileMu.
func (j *Journal) write() {
	j.mu.Lock()
	b := j.next
	if len(b.bytes) == 0 {
		j.mu.Unlock()
		return
	}
	j.next, j.current, j.writes = newBatch(), b, j.writes+1
	j.mu.Unlock()
	if _, b.err = j.file.Write(b.bytes); b.err == nil {
		b.err = j.file.Sync()
	}
	j.mu.Lock()
	j.size += int64(len(b.bytes))
	if b.err != nil {
		j.failLocked(b.err)
	}
	j.mu.Unlock()
	close(b.done)
}

// failLocked refuses all records from now on, also those that wait.
func (j *Journal) failLocked(err error) {
	if j.err != nil {
		return
	}
	j.err = fmt.Errorf("cannot write the journal: %w", err)
	if len(j.next.bytes) > 0 {
		b := j.next
		j.next, j.current = newBatch(), b
		b.err = j.err
		close(b.done)
	}
}

// Rotate begins a new file. Then all records of the older files may be dropped as soon as the caller has
// saved the states that they describe: drop removes those files. If a write had failed, records are
// accepted again; those that were refused stay unwritten, and their callers had an error. Until drop, so has a
// caller of Sync without records.
func (j *Journal) Rotate() (drop func() error, err error) {
	j.fileMu.Lock()
	defer j.fileMu.Unlock()
	j.write()
	before := j.number
	if err := j.begin(); err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		j.err = nil
	}
	return func() error { return j.drop(before) }, nil
}

// drop removes the files up to a number.
func (j *Journal) drop(last uint64) error {
	files, err := listJournal(j.name)
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.number > last {
			continue
		}
		if err := os.Remove(journalName(j.name, f.number)); err != nil {
			return err
		}
		j.mu.Lock()
		j.size -= f.size
		j.mu.Unlock()
	}
	j.forgive()
	return nil
}

// forgive lets Sync succeed again for a caller without records after a failed write, whose states are saved
// now.
func (j *Journal) forgive() {
	j.mu.Lock()
	defer j.mu.Unlock()
	select {
	case <-j.current.done:
		if j.err == nil && j.current.err != nil {
			j.current = newBatch()
			close(j.current.done)
		}
	default: // it is being written
	}
}

// Close writes what was appended and closes the file.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	close(j.stop)
	j.mu.Unlock()
	j.fileMu.Lock()
	defer j.fileMu.Unlock()
	j.write()
	j.mu.Lock()
	j.failLocked(ErrJournalClosed)
	j.mu.Unlock()
	return j.file.Close()
}

// journalFile is a file of a journal.
type journalFile struct {
	number uint64
	size   int64
}

func journalName(name string, number uint64) string {
	return fmt.Sprintf("%s.journal-%020d", name, number)
}

// listJournal returns the files of a journal in ascending order.
func listJournal(name string) (files []journalFile, err error) {
	paths, err := filepath.Glob(escapePattern(name) + ".journal-*")
	if err != nil {
		return nil, err
	}
	for _, path := range paths { // sorted
		var f journalFile
		if n, _ := fmt.Sscanf(path[len(name):], ".journal-%d", &f.number); n != 1 || path != journalName(name, f.number) {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		f.size = info.Size()
		files = append(files, f)
	}
	return files, nil
}

// escapePattern returns a pattern that matches a name only.
func escapePattern(name string) string {
	var b bytes.Buffer
	for _, c := range []byte(name) {
		if bytes.IndexByte([]byte(`*?[\`), c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}
