package book

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"stint/internal/testkit"
	"stint/rule/catalog"
)

// Environment variables that make this test binary a writer of a file.
const (
	writerFile = "STINT_TEST_WRITER_FILE"
	writerFrom = "STINT_TEST_WRITER_FROM"
	writerRoom = "STINT_TEST_WRITER_ROOM"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(writerFile); path != "" {
		if err := writer(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// changeOnDisk makes change number n with the given functions; it is the same change for all
// writers.
func changeOnDisk(n int, put func(...catalog.Rule) error, remove func(string) error, replace func(...catalog.Rule) error) error {
	batch := make([]catalog.Rule, 30)
	for i := range batch {
		batch[i] = sampleOnDisk(fmt.Sprint("batch-", i), n)
	}
	switch n % 7 {
	case 3:
		return put(batch...)
	case 5:
		return remove(fmt.Sprint("one-", n*5%11))
	case 6:
		if n%3 == 0 {
			return replace(batch...)
		}
	}
	return put(sampleOnDisk(fmt.Sprint("one-", n*3%11), n))
}

// writer changes a file until it is killed or fails, and prints each acknowledged change.
func writer(path string) error {
	from, _ := strconv.Atoi(os.Getenv(writerFrom))
	if room, err := strconv.ParseUint(os.Getenv(writerRoom), 10, 64); err == nil {
		if err := testkit.CapFiles(room); err != nil {
			return err
		}
	}
	s, err := OpenDisk(path)
	if err != nil {
		return err
	}
	merge := func(rules ...catalog.Rule) error {
		i, err := Gather(each(rules...))
		if err != nil {
			return err
		}
		if i.Len() == 1 {
			return s.Put(rules[0])
		}
		return s.Merge(i)
	}
	replace := func(rules ...catalog.Rule) error {
		i, err := Gather(each(rules...))
		if err != nil {
			return err
		}
		return s.Replace(i)
	}
	for n := from; n < from+100_000; n++ { // killed long before the end
		if err := changeOnDisk(n, merge, s.Delete, replace); err != nil {
			if fault, ok := errors.AsType[*DiskError](err); ok {
				return fmt.Errorf("%w\nhint: %s", err, fault.Hint)
			}
			return err
		}
		fmt.Println(n)
	}
	return nil
}

// model is the content of a file after a number of changes.
type model map[string]catalog.Rule

func (m model) change(n int) {
	put := func(rules ...catalog.Rule) error {
		for _, r := range rules {
			m[r.ID] = r
		}
		return nil
	}
	_ = changeOnDisk(n, put, func(id string) error { delete(m, id); return nil }, func(rules ...catalog.Rule) error {
		clear(m)
		return put(rules...)
	}) // never fails
}

// start starts a writer with a limited file size; "" for no limit.
func start(t *testing.T, path string, from int, room string) (*exec.Cmd, *bufio.Scanner, *strings.Builder) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerFile+"="+path, fmt.Sprint(writerFrom, "=", from), writerRoom+"="+room)
	out, err := cmd.StdoutPipe()
	testkit.Must(t, err)
	said := new(strings.Builder)
	cmd.Stderr = said
	testkit.Must(t, cmd.Start())
	return cmd, bufio.NewScanner(out), said
}

// same reports whether the file has exactly the content of the model.
func same(t *testing.T, path string, m model) bool {
	t.Helper()
	s, err := OpenDisk(path)
	testkit.Must(t, err)
	defer s.Close()
	return reflect.DeepEqual(model(all(t, s)), m)
}

// A writer is killed repeatedly at random times: the file opens, each acknowledged change is
// present, and the unfinished change is either complete or absent.
func TestKill(t *testing.T) {
	kills := 100
	if testing.Short() {
		kills = 15
	}
	random := rand.New(rand.NewPCG(7, 7))
	path := filepath.Join(t.TempDir(), "rules.db")
	m, next := model{}, 0
	for range kills {
		cmd, out, said := start(t, path, next, "")
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
		if same(t, path, m) {
			continue
		}
		m.change(next)
		next++
		if !same(t, path, m) {
			t.Fatalf("after change %d the file holds neither it nor what was there before", next-1)
		}
	}
	t.Logf("%d changes, killed %d times", next, kills)
}

// A writer without disk space returns an error with a hint and loses nothing.
func TestNoRoom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.db")
	cmd, out, said := start(t, path, 0, strconv.Itoa(80<<10))
	m, next := model{}, 0
	for out.Scan() {
		m.change(next)
		next++
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(said.String(), "no room on the disk") || !strings.Contains(said.String(), "hint: make room") {
		t.Fatalf("after %d changes the writer ended with %v: %s", next, err, said)
	}
	if !same(t, path, m) {
		t.Fatalf("after %d changes the file holds something else", next)
	}
}
