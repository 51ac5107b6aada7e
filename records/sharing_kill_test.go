package records

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/records/replication"
	"stint/store/redis/recordlog"
)

// openAsWriter opens the file of a writer, with the log that its environment names.
func openAsWriter(path string) (*File, error) {
	url := os.Getenv(writerLog)
	if url == "" {
		return Open(path, Options{})
	}
	log, err := recordlog.Open(url, "shop")
	if err != nil {
		return nil, err
	}
	f, err := Open(path, Options{Log: log, Node: "writer"})
	if err == nil {
		go f.Follow(context.Background()) // until the process is killed
	}
	return f, err
}

// A node is killed repeatedly at random times, also between the log and its own file. Each acknowledged
// change is on all nodes; the unfinished one is either complete everywhere or nowhere. Its repeat on
// another node is made once.
func TestSharedKill(t *testing.T) {
	t.Parallel()
	kills := 40
	if testing.Short() {
		kills = 8
	}
	server := testkit.StartRedis(t)
	path := filepath.Join(t.TempDir(), "writer")
	other := share(t, server.URL(), filepath.Join(t.TempDir(), "other"))
	random := rand.New(rand.NewPCG(7, 20))
	next, complete, behind := 0, 0, 0
	for range kills {
		cmd, out, said := startWriter(t, path, next, "", server.URL())
		for range 1 + random.IntN(20) {
			if !out.Scan() {
				t.Fatalf("the writer ended by itself: %s", said)
			}
			next++
		}
		testkit.Must(t, cmd.Process.Kill())
		for out.Scan() { // output before it was killed
			next++
		}
		_ = cmd.Wait() // was killed
		made, err := strconv.Atoi(server.Do("HGET", "shop:{records}:head", "number"))
		testkit.Must(t, err)
		if made != next && made != next+1 {
			t.Fatalf("Redis has %d changes, %d were acknowledged", made, next)
		}
		f := open(t, path)
		own, err := f.Revision()
		testkit.Must(t, err)
		if own < uint64(made) {
			behind++
		}
		testkit.Must(t, f.Close())
		killed := share(t, server.URL(), path)
		agree(t, other, killed)
		killed.stop()
		repeat, err := other.Apply(t.Context(), Change{Edits: editsOf(next), IdempotencyKey: fmt.Sprint("change-", next)}, start)
		if err != nil || repeat.Repeated != (made > next) || repeat.Revision != uint64(next)+1 {
			t.Fatalf("the repeat of change %d: %v, %v; Redis had %d", next, repeat, err, made)
		}
		if repeat.Repeated {
			complete++
		}
		next++
	}
	killed := share(t, server.URL(), path)
	agree(t, other, killed)
	t.Logf("%d changes, killed %d times; %d of the unfinished changes were complete, the file was behind Redis %d times", next, kills, complete, behind)
}

// faultyLog is a log whose Read or Append fails.
type faultyLog struct {
	replication.Log
	reading       error
	before, after error // before or after the entry is appended; nil: no error
}

func (l *faultyLog) Read(ctx context.Context, after uint64, wait time.Duration) ([]replication.Entry, replication.Head, error) {
	if l.reading != nil {
		return nil, replication.Head{}, l.reading
	}
	return l.Log.Read(ctx, after, wait)
}

func (l *faultyLog) Append(ctx context.Context, after replication.Head, e *replication.Entry, writes []replication.Write, forget bool) (replication.Head, error) {
	if l.before != nil {
		return replication.Head{}, l.before
	}
	head, err := l.Log.Append(ctx, after, e, writes, forget)
	if err == nil && l.after != nil {
		return replication.Head{}, l.after
	}
	return head, err
}

// A change that could not be sent has changed nothing, and says so. One whose answer is lost says that
// it may have been made; it is in force here too soon after, and its repeat has the outcome.
func TestSharedAppendFails(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	inner, err := recordlog.Open(server.URL(), "shop")
	testkit.Must(t, err)
	defer inner.Close()
	log := &faultyLog{Log: inner}
	f, err := Open(filepath.Join(t.TempDir(), "records.db"), Options{Log: log})
	testkit.Must(t, err)
	defer f.Close()
	change := Change{Edits: []Edit{{Put: ban}}, IdempotencyKey: "once"}

	log.before = errors.New("not sent")
	_, err = f.Apply(t.Context(), change, start)
	wantFault(t, err, "records", "not sent", "try again", ErrUnavailable)
	if errors.Is(err, stint.ErrUnknown) || len(contentOf(t, f)) != 0 || server.Do("EXISTS", "shop:{records}:head") != "0" {
		t.Errorf("%v, %v", err, contentOf(t, f))
	}

	// An answer to reading that is lost is no change that may have been made.
	log.before, log.reading = nil, fmt.Errorf("no answer: %w", stint.ErrUnknown)
	_, err = f.Apply(t.Context(), change, start)
	wantFault(t, err, "records", "no answer", "try again", ErrUnavailable)
	if errors.Is(err, stint.ErrUnknown) || server.Do("EXISTS", "shop:{records}:head") != "0" {
		t.Errorf("%v", err)
	}

	log.reading, log.after = nil, fmt.Errorf("lost: %w", stint.ErrUnknown)
	_, err = f.Apply(t.Context(), change, start)
	wantFault(t, err, "records", "may have been made", "same idempotency key", ErrUnavailable)
	if !errors.Is(err, stint.ErrUnknown) || len(contentOf(t, f)) != 0 {
		t.Errorf("%v, %v", err, contentOf(t, f))
	}

	log.after = nil
	out, err := f.Apply(t.Context(), change, start)
	if err != nil || !out.Repeated || out.Revision != 1 || len(contentOf(t, f)) != 1 {
		t.Errorf("%v, %v, %v", out, err, contentOf(t, f))
	}
}

// A node without disk space says so. What it appended to the log is on the other nodes, and here when
// there is room again.
func TestSharedNoRoom(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	path := filepath.Join(t.TempDir(), "writer")
	other := share(t, server.URL(), filepath.Join(t.TempDir(), "other"))
	cmd, out, said := startWriter(t, path, 0, strconv.Itoa(320<<10), server.URL())
	next := 0
	for out.Scan() {
		next++
	}
	if err := cmd.Wait(); err == nil || next == 0 || !strings.Contains(said.String(), "no room on the disk") {
		t.Fatalf("after %d changes the writer ended with %v: %s", next, err, said)
	}
	made, err := strconv.Atoi(server.Do("HGET", "shop:{records}:head", "number"))
	testkit.Must(t, err)
	if made < next || made > next+1 {
		t.Errorf("Redis has %d changes, %d were acknowledged", made, next)
	}
	agree(t, other, share(t, server.URL(), path))
}
