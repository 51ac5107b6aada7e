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

// Variables that make this test binary a writer of the file they name.
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

// changeOnDisk makes change number n to what do stands for; all writers make the same ones.
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

// writer changes a file until it is killed or fails, and says each change that was
// acknowledged.
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
	for n := from; n < from+100_000; n++ { // it is killed long before
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

// model is what a file holds after the changes from and up to n.
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
	}) // it cannot fail
}

// start starts a writer; it is told how much room it has, "" for enough.
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

// same reports whether the file holds what the model does, and nothing else.
func same(t *testing.T, path string, m model) bool {
	t.Helper()
	s, err := OpenDisk(path)
	testkit.Must(t, err)
	defer s.Close()
	return reflect.DeepEqual(model(all(t, s)), m)
}

// A writer is killed at any moment, again and again: each change that it acknowledged is
// there, the one that it was making is there as a whole or not at all, and the file
// opens.
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
		for out.Scan() { // what it said before it died
			m.change(next)
			next++
		}
		_ = cmd.Wait() // it was killed
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

// A writer that runs out of room says so with a hint, and loses nothing.
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
