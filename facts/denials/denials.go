package denials

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// remembered is how many lines of the log of denials are kept in memory.
	remembered = 4096

	// maxScan is the most bytes of old lines that one question reads.
	maxScan = 64 << 20

	// pieces is into how many files the bytes of the log are divided, so that old ones can be removed.
	pieces = 8

	// day is how long one file is written at most.
	day = 24 * time.Hour

	// checkEvery is how often old files are looked for while there are no denials.
	checkEvery = time.Hour
)

// Line is a line of the log of denials. It has no clear value of a key.
//
// A rule denied, or a ban or a list: then Rule is its name, and Key is empty. Limit is 0 where none decided.
// RetryAfter is -1 if no retry helps.
type Line struct {
	At         time.Time     `json:"at"`
	RequestID  string        `json:"request_id,omitempty"`
	Domain     string        `json:"domain"`
	Rule       string        `json:"rule"`
	Key        string        `json:"key"` // its hash, as the lists of keys show it
	Reason     string        `json:"reason"`
	Limit      int64         `json:"limit"`
	RetryAfter time.Duration `json:"retry_after_ns"`
	Degraded   bool          `json:"degraded"`
	Sampled    uint64        `json:"sampled"` // how many denials this line stands for
}

// Key is whose denials are counted: a key of a rule, or a list.
type Key struct {
	Domain, Rule string
	Hash         uint64
}

// Options are the settings of a Log.
type Options struct {
	// File receives the lines as JSON. When it has an eighth of Bytes, or after a day, it is renamed to
	// File with the time behind it. "": the last 4096 lines are kept in memory alone.
	File string

	// Out receives the lines if File is "". Nil: nothing does.
	Out io.Writer

	// Every is of how many denials of a key in a minute one is written, after the first one. 0: 100.
	Every uint64

	// PerSecond is the most lines of a second. Others are left out. 0: 100.
	PerSecond int

	// Keep is how long files are kept. 0: 30 days.
	Keep time.Duration

	// Bytes is the most bytes of all files. 0: 256 MiB.
	Bytes int64
}

// Log is the log of denials. It is not safe for concurrent use, but for Older.
type Log struct {
	options Options
	now     func() time.Time
	log     *slog.Logger
	file    *os.File
	size    int64
	opened  time.Time // since when the file has lines
	checked time.Time // when old files were looked for
	failed  bool

	lines  []Line // the newest ones, a ring
	next   int
	minute time.Time
	seen   map[Key]uint64 // denials since the last line of a key in this minute
	before map[Key]uint64 // the same for the minute before
	second time.Time
	used   int // lines of this second
	unsent bytes.Buffer
}

// Open opens the log and reads its newest lines.
func Open(o Options, now func() time.Time, log *slog.Logger) (*Log, error) {
	o.Every, o.PerSecond = cmp.Or(o.Every, 100), cmp.Or(o.PerSecond, 100)
	o.Keep, o.Bytes = cmp.Or(o.Keep, 30*day), cmp.Or(o.Bytes, 256<<20)
	d := &Log{options: o, now: now, log: log, seen: map[Key]uint64{}}
	if o.File == "" {
		return d, nil
	}
	if err := d.open(); err != nil {
		return nil, err
	}
	d.prune()
	old := d.scan(0, remembered, nil)
	slices.Reverse(old)
	for _, line := range old {
		d.remember(line)
	}
	return d, nil
}

// open opens the file for more lines.
func (d *Log) open() error {
	file, err := os.OpenFile(d.options.File, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	d.file, d.size, d.opened = file, info.Size(), d.now()
	d.endLine()
	if first, err := firstLine(d.options.File); err == nil && first.At.Before(d.opened) {
		d.opened = first.At
	}
	return nil
}

// endLine ends the last line of the file, which a crash may have cut off.
func (d *Log) endLine() {
	file, err := os.Open(d.options.File)
	if err != nil {
		return // it can be written only
	}
	last := []byte{'\n'}
	_, _ = file.ReadAt(last, d.size-1) // an empty file has no line to end
	_ = file.Close()
	if last[0] != '\n' {
		n, _ := d.file.WriteString("\n") // the next line says if the disk is full
		d.size += int64(n)
	}
}

// firstLine returns the first line of a file.
func firstLine(name string) (line Line, err error) {
	file, err := os.Open(name)
	if err != nil {
		return line, err
	}
	err = json.NewDecoder(file).Decode(&line)
	return line, errors.Join(err, file.Close())
}

// Close writes what is left and closes the file.
func (d *Log) Close() error {
	d.Flush()
	if d.file == nil {
		return nil
	}
	return d.file.Close()
}

// Note adds a number of denials of a key: a line for the first one in a minute, then one for every so many. make
// returns the line, but for Sampled.
func (d *Log) Note(key Key, count uint64, make func() Line) {
	now := d.now()
	if minute := now.Truncate(time.Minute); !minute.Equal(d.minute) {
		d.minute, d.before, d.seen = minute, d.seen, map[Key]uint64{}
	}
	since, known := d.seen[key]
	switch {
	case !known:
		if d.write(now, 1+d.before[key], make) {
			d.seen[key] = count - 1
		}
		return
	case since+count >= d.options.Every && d.write(now, since+count, make):
		d.seen[key] = 0
	default:
		d.seen[key] = since + count
	}
}

// write adds a line that stands for so many denials, and reports whether there was room in this second.
func (d *Log) write(now time.Time, sampled uint64, make func() Line) bool {
	if second := now.Truncate(time.Second); !second.Equal(d.second) {
		d.second, d.used = second, 0
	}
	if d.used >= d.options.PerSecond {
		return false
	}
	d.used++
	line := make()
	line.Sampled = sampled
	d.remember(line)
	_ = json.NewEncoder(&d.unsent).Encode(line) // cannot fail: a Line has texts, numbers and a time
	return true
}

// remember keeps a line in memory.
func (d *Log) remember(line Line) {
	if len(d.lines) < remembered {
		d.lines = append(d.lines, line)
		return
	}
	d.lines[d.next] = line
	d.next = (d.next + 1) % remembered
}

// Flush writes the new lines, and removes files that are too old.
func (d *Log) Flush() {
	now := d.now()
	due := d.file != nil && now.Sub(d.checked).Abs() >= checkEvery
	if d.unsent.Len() == 0 && !due {
		return
	}
	defer d.unsent.Reset()
	if d.file == nil {
		if d.options.Out != nil {
			_, _ = d.options.Out.Write(d.unsent.Bytes()) // nobody reads it
		}
		return
	}
	err := errors.Join(d.follow(), d.append())
	switch {
	case err != nil:
	case d.size >= d.options.Bytes/pieces || d.size > 0 && now.Sub(d.opened) >= day:
		err = d.rotate()
	case due:
		d.prune()
	}
	if due {
		d.checked = now
	}
	if err != nil && !d.failed {
		d.log.Error("denials not written", "file", d.options.File, "error", err, "hint", "see that the disk has room and the folder can be written")
	}
	if err == nil && d.failed {
		d.log.Info("denials are written again", "file", d.options.File)
	}
	d.failed = err != nil
}

// follow opens the file anew if its name is that of another file or of none, because somebody moved or removed it. On an
// error the old file goes on. Of a file that somebody shortened it notes the size.
func (d *Log) follow() error {
	info, err := d.file.Stat()
	if err != nil {
		return err
	}
	if named, err := os.Stat(d.options.File); err == nil && os.SameFile(info, named) {
		d.size = info.Size()
		return nil
	}
	return d.reopen()
}

// reopen opens the file of the name, and closes the one before. On an error the old file goes on.
func (d *Log) reopen() error {
	old := d.file
	if err := d.open(); err != nil {
		return err
	}
	return old.Close()
}

// append writes the new lines to the file. Of a line for which there is no room it leaves nothing, so that the next one
// begins on a line of its own.
func (d *Log) append() error {
	n, err := d.file.Write(d.unsent.Bytes())
	if part := n - bytes.LastIndexByte(d.unsent.Bytes()[:n], '\n') - 1; err != nil && part > 0 {
		if info, failed := d.file.Stat(); failed == nil && d.file.Truncate(info.Size()-int64(part)) == nil {
			n -= part
		}
	}
	d.size += int64(n)
	return err
}

// stamp is the form of the time in the names of old files.
const stamp = "20060102T150405.000"

// rotate renames the file and begins a new one. On an error it goes on with the old one.
func (d *Log) rotate() error {
	name := d.options.File + "." + d.now().UTC().Format(stamp)
	if _, err := os.Lstat(name); err == nil {
		return nil // two in a millisecond: the next flush tries again
	}
	if err := os.Rename(d.options.File, name); err != nil {
		return err
	}
	err := d.reopen()
	d.prune()
	return err
}

// files returns the files of the log, the newest first.
func (d *Log) files() []string {
	found, err := os.ReadDir(filepath.Dir(d.options.File))
	if err != nil {
		return nil
	}
	var old []string
	for _, entry := range found {
		rest, ours := strings.CutPrefix(entry.Name(), filepath.Base(d.options.File)+".")
		if _, err := time.Parse(stamp, rest); ours && err == nil && entry.Type().IsRegular() {
			old = append(old, filepath.Join(filepath.Dir(d.options.File), entry.Name()))
		}
	}
	slices.Sort(old)
	old = append(old, d.options.File)
	slices.Reverse(old)
	return old
}

// prune removes files that are too old, and the oldest ones while all have too many bytes. The file that
// is being written stays.
func (d *Log) prune() {
	total := int64(0)
	for i, name := range d.files() {
		info, err := os.Stat(name)
		if err != nil {
			continue
		}
		total += info.Size()
		room := d.options.Bytes - d.options.Bytes/pieces // the new file needs the rest
		if i > 0 && (total > room || d.now().Sub(info.ModTime()) > d.options.Keep) {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				d.log.Error("an old file of denials was not removed", "file", name, "error", err, "hint", "remove it, and let this user write to its folder")
			}
		}
	}
}

// scan reads the files from the newest line to the oldest: it skips some lines and returns n that match.
func (d *Log) scan(skip, n int, match func(*Line) bool) []Line {
	var found []Line
	read := 0
	for _, name := range d.files() {
		body, err := os.ReadFile(name)
		if read += len(body); err != nil || read > maxScan {
			break
		}
		for len(body) > 0 && len(found) < n {
			body = bytes.TrimSuffix(body, []byte("\n"))
			text := body[bytes.LastIndexByte(body, '\n')+1:]
			body = body[:len(body)-len(text)]
			if skip--; skip >= 0 {
				continue
			}
			var line Line
			if json.Unmarshal(text, &line) == nil && (match == nil || match(&line)) {
				found = append(found, line)
			}
		}
	}
	return found
}

// Recent returns the lines in memory, the newest first, and whether there are files with older ones.
func (d *Log) Recent() (lines []Line, files bool) {
	lines = slices.Concat(d.lines[d.next:], d.lines[:d.next])
	slices.Reverse(lines)
	return lines, d.file != nil
}

// Older returns n lines of the files that match and are older than the newest skip, newest first. It is safe
// for concurrent use.
func (d *Log) Older(skip, n int, match func(*Line) bool) []Line { return d.scan(skip, n, match) }
