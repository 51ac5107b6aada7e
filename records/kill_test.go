package records

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"stint/internal/testkit"
)

// Environment variables that make this test binary a writer of a file.
const (
	writerFile = "STINT_TEST_WRITER_FILE"
	writerFrom = "STINT_TEST_WRITER_FROM"
	writerRoom = "STINT_TEST_WRITER_ROOM"
	writerLog  = "STINT_TEST_WRITER_LOG"

	eraserFile = "STINT_TEST_ERASER_FILE" // that it erases subjects from
)

func TestMain(m *testing.M) {
	for file, work := range map[string]func(path string) error{writerFile: writer, eraserFile: eraseAll} {
		if path := os.Getenv(file); path != "" {
			if err := work(path); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	os.Exit(m.Run())
}

// editsOf returns the edits of change number n, which are the same for all writers. Each has records
// of several kinds, so that a change that is made in part is noticed.
func editsOf(n int) []Edit {
	why := strings.Repeat("w", n%200)
	name := fmt.Sprint("user=", n%11)
	edits := []Edit{
		{Put: Subject{Name: name, Kind: User, Plan: fmt.Sprint("plan-", n), Notes: why}},
		{Put: Override{Target: name, Rule: "api/user", Requests: uint32(n) + 1, Why: why}},
		{Put: Ban{Network: netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(n % 13)}), 32), Why: why}},
		{Put: keyOf(fmt.Sprint("key-", n%7), name)},
	}
	if n%5 == 4 { // an import
		for i := range 40 {
			edits = append(edits, Edit{Put: Override{Target: fmt.Sprint("org=", i), Rule: "api/org", Burst: uint32(n) + 1}})
		}
	}
	if n%7 == 6 { // change n-1 made this ban
		edits = append(edits, Edit{Delete: Ban{Network: netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte((n - 1) % 13)}), 32)}.ID()})
	}
	return edits
}

// writer changes a file until it is killed or fails, and prints each acknowledged change.
func writer(path string) error {
	from, _ := strconv.Atoi(os.Getenv(writerFrom))
	if room, err := strconv.ParseUint(os.Getenv(writerRoom), 10, 64); err == nil {
		if err := testkit.CapFiles(room); err != nil {
			return err
		}
	}
	f, err := openAsWriter(path)
	if err != nil {
		return err
	}
	for n := from; n < from+100_000; n++ { // killed long before the end
		out, err := f.Apply(context.Background(), Change{Edits: editsOf(n), IdempotencyKey: fmt.Sprint("change-", n)}, start)
		for errors.Is(err, ErrUnavailable) { // with a shared log, on a slow machine
			out, err = f.Apply(context.Background(), Change{Edits: editsOf(n), IdempotencyKey: fmt.Sprint("change-", n)}, start)
			out.Repeated = false
		}
		switch {
		case err != nil:
			if fault, ok := errors.AsType[*Error](err); ok {
				return fmt.Errorf("%w\nhint: %s", err, fault.Hint)
			}
			return err
		case out.Revision != uint64(n)+1 || out.Repeated:
			return fmt.Errorf("change %d has the outcome %v", n, out)
		}
		fmt.Println(n)
	}
	return nil
}

// content is the records of a file after a number of changes.
type content map[ID]Record

func (m content) change(n int) {
	for _, e := range editsOf(n) {
		if e.Put == nil {
			delete(m, e.Delete)
			continue
		}
		m[e.Put.ID()] = e.Put
	}
}

// startWriter starts a writer with a limited file size, "" for no limit, and a shared log, "" for none.
func startWriter(t *testing.T, path string, from int, room, log string) (*exec.Cmd, *bufio.Scanner, *strings.Builder) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerFile+"="+path, fmt.Sprint(writerFrom, "=", from), writerRoom+"="+room, writerLog+"="+log)
	out, err := cmd.StdoutPipe()
	testkit.Must(t, err)
	said := new(strings.Builder)
	cmd.Stderr = said
	testkit.Must(t, cmd.Start())
	return cmd, bufio.NewScanner(out), said
}

// same reports whether the file has exactly the content and the revision, and a whole audit trail with
// one entry for each edit up to this revision.
func same(t *testing.T, path string, m content, revision int) bool {
	t.Helper()
	f := open(t, path)
	defer f.Close()
	got, err := f.Revision()
	testkit.Must(t, err)
	if got != uint64(revision) || !reflect.DeepEqual(contentOf(t, f), m) {
		return false
	}
	r, err := f.Verify(t.Context())
	testkit.Must(t, err)
	entries := 0
	for n := range revision {
		entries += len(editsOf(n))
	}
	if r.Break != nil || r.Head.Number != uint64(entries) {
		t.Errorf("revision %d has %d entries of the audit trail, want %d; %v", revision, r.Head.Number, entries, r.Break)
	}
	return true
}

// A writer is killed repeatedly at random times: the file opens, each acknowledged change is
// present, and the unfinished change is either complete or absent. Its repeat is made once.
func TestKill(t *testing.T) {
	kills := 100
	if testing.Short() {
		kills = 15
	}
	random := rand.New(rand.NewPCG(7, 7))
	path := filepath.Join(t.TempDir(), "records.db")
	m, next, complete := content{}, 0, 0
	for range kills {
		cmd, out, said := startWriter(t, path, next, "", "")
		for range 1 + random.IntN(30) {
			if !out.Scan() {
				t.Fatalf("the writer ended by itself: %s", said)
			}
			m.change(next)
			next++
		}
		testkit.Must(t, cmd.Process.Kill())
		for out.Scan() { // output before it was killed
			m.change(next)
			next++
		}
		_ = cmd.Wait() // was killed
		made := !same(t, path, m, next)
		m.change(next)
		f := open(t, path)
		out2, err := f.Apply(t.Context(), Change{Edits: editsOf(next), IdempotencyKey: fmt.Sprint("change-", next)}, start)
		testkit.Must(t, err)
		testkit.Must(t, f.Close())
		next++
		if out2.Repeated != made || out2.Revision != uint64(next) || !same(t, path, m, next) {
			t.Fatalf("change %d was made in part, or twice: %v", next-1, out2)
		}
		if made {
			complete++
		}
	}
	t.Logf("%d changes, killed %d times; %d of the unfinished changes were complete", next, kills, complete)
}

// secretOf returns a subject that eraseAll writes and erases.
func secretOf(n int) string { return fmt.Sprintf("user=secret-%06d", n) }

// eraseAll writes and erases subjects until it is killed, and prints each that was erased.
func eraseAll(path string) error {
	f, err := Open(path, Options{})
	if err != nil {
		return err
	}
	from, _ := strconv.Atoi(os.Getenv(writerFrom))
	for n := from; n < from+100_000; n++ { // killed long before the end
		name := secretOf(n)
		c := Change{Why: "for " + name, IdempotencyKey: name, Edits: []Edit{{Put: Subject{Name: name, Kind: User, Notes: strings.Repeat(name, 100)}}}}
		for i := range 20 {
			c.Edits = append(c.Edits, Edit{Put: Override{Target: name, Rule: fmt.Sprint("rule-", i), Burst: 1, Why: strings.Repeat(name, 20)}})
		}
		if _, err := f.Apply(context.Background(), c, start); err != nil {
			return err
		}
		if _, err := f.Erase(context.Background(), name, Actor{}, start); err != nil {
			return err
		}
		fmt.Println(n)
	}
	return nil
}

// A process that erases subjects is killed repeatedly at random times. After the file was opened again,
// the last subject is there with all its records, or without any, and nothing of those that were erased
// before is in the file.
func TestKillErase(t *testing.T) {
	kills := 40
	if testing.Short() {
		kills = 8
	}
	random := rand.New(rand.NewPCG(8, 8))
	path := filepath.Join(t.TempDir(), "records.db")
	next, there := 0, 0
	for range kills {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), eraserFile+"="+path, fmt.Sprint(writerFrom, "=", next))
		out, err := cmd.StdoutPipe()
		testkit.Must(t, err)
		testkit.Must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for range 1 + random.IntN(3) {
			if !lines.Scan() {
				t.Fatal("the process ended by itself")
			}
			next++
		}
		for range random.IntN(2_000_000) { // a part of the next erasure
		}
		testkit.Must(t, cmd.Process.Kill())
		for lines.Scan() {
			next++
		}
		_ = cmd.Wait() // was killed
		f := open(t, path)
		records := len(contentOf(t, f))
		r, err := f.Verify(t.Context())
		testkit.Must(t, err)
		if r.Break != nil || records != 0 && records != 21 {
			t.Fatalf("%d records, %v", records, r.Break)
		}
		for n := max(0, next-50); n < next; n++ {
			if got := traces(t, f, secretOf(n)); len(got) > 0 {
				t.Fatalf("the file still has %q, which was erased before the kill", got)
			}
		}
		// Pages of a change that was not completed may be left, until something is erased.
		_, err = f.Erase(t.Context(), secretOf(next), Actor{}, start)
		if records != 0 {
			there++
			testkit.Must(t, err)
		}
		if got := traces(t, f, "secret-"); len(got) > 0 {
			t.Fatalf("after %d subjects the file still has %q; there were %d records", next, got, records)
		}
		next++
		testkit.Must(t, f.Close())
	}
	t.Logf("%d subjects, killed %d times; %d times the last subject was there", next, kills, there)
}

// changedBytes returns the positions of the bytes that a change wrote, in the order of the writes: first
// those of data pages, whose number is data, then those of the one of the first two pages that the
// change wrote.
func changedBytes(before, after []byte) (order []int, data int) {
	page := os.Getpagesize()
	for at := range after {
		if at >= 2*page && after[at] != before[at] {
			order = append(order, at)
		}
	}
	data = len(order)
	for at := range 2 * page {
		if after[at] != before[at] {
			order = append(order, at)
		}
	}
	return order, data
}

// bbolt writes the changed pages in order, and the page that makes them valid last. Whatever the byte
// at which this stops, the file has the revision before or after.
func TestKillAtAnyByte(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "records.db")
	f := open(t, path)
	for n := range 9 {
		_, err := f.Apply(t.Context(), Change{Edits: editsOf(n)}, start)
		testkit.Must(t, err)
	}
	testkit.Must(t, f.Close())
	before, err := os.ReadFile(path)
	testkit.Must(t, err)
	f = open(t, path)
	_, err = f.Apply(t.Context(), Change{Edits: editsOf(9)}, start)
	testkit.Must(t, err)
	testkit.Must(t, f.Close())
	after, err := os.ReadFile(path)
	testkit.Must(t, err)
	old, fresh := content{}, content{}
	for n := range 10 {
		if n < 9 {
			old.change(n)
		}
		fresh.change(n)
	}

	before = append(before, make([]byte, max(0, len(after)-len(before)))...)
	order, data := changedBytes(before, after)
	cut := filepath.Join(dir, "cut.db")
	olds, news := 0, 0
	for written, at := range order {
		if written < data && written%max(1, data/50) != 0 { // a sample of the data, and all of the last page
			before[at] = after[at]
			continue
		}
		testkit.Must(t, os.WriteFile(cut, before, 0o600))
		switch {
		case same(t, cut, old, 9):
			olds++
		case same(t, cut, fresh, 10):
			news++
		default:
			t.Fatalf("cut at byte %d, after %d changed bytes of %d, of which %d are data: neither the old nor the new revision", at, written, len(order), data)
		}
		before[at] = after[at]
	}
	testkit.Must(t, os.WriteFile(cut, before, 0o600))
	if !same(t, cut, fresh, 10) || olds < 50 || data == 0 {
		t.Errorf("all bytes do not make the new revision, or nothing was cut: %d old, %d new", olds, news)
	}
	t.Logf("%d cuts left the old revision, %d the new one", olds, news)
}

// A writer without disk space returns an error with a hint and loses nothing.
func TestNoRoom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	cmd, out, said := startWriter(t, path, 0, strconv.Itoa(160<<10), "")
	m, next := content{}, 0
	for out.Scan() {
		m.change(next)
		next++
	}
	if err := cmd.Wait(); err == nil || next == 0 || !strings.Contains(said.String(), "no room on the disk") || !strings.Contains(said.String(), "hint: make room") {
		t.Fatalf("after %d changes the writer ended with %v: %s", next, err, said)
	}
	if !same(t, path, m, next) {
		t.Fatalf("after %d changes the file holds something else", next)
	}
}
