package notify

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"stint/internal/testkit"
)

// wholeLines checks that each line of a file is an event, and returns their number.
func wholeLines(t *testing.T, name string) (n int) {
	t.Helper()
	text, err := os.ReadFile(name)
	testkit.Must(t, err)
	for line := range strings.Lines(string(text)) {
		if err := json.Unmarshal([]byte(line), new(message)); err != nil || !strings.HasSuffix(line, "\n") {
			t.Errorf("%v in %q", err, line)
		}
		n++
	}
	return n
}

// A disk that fills up in the middle of a line leaves none of it, and the next line is whole.
func TestFullDisk(t *testing.T) {
	s := newLineSender(filepath.Join(t.TempDir(), "events.jsonl"), nil)
	testkit.Must(t, s.try())
	e := event(1)
	if a := s.send(t.Context(), &e); a.Problem != "" {
		t.Fatal(a.Problem)
	}
	info, err := os.Stat(s.path)
	testkit.Must(t, err)
	var limit syscall.Rlimit
	testkit.Must(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	small := limit
	small.Cur = uint64(info.Size()) * 3 / 2 // room for one line and a half
	testkit.Must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small))
	e = event(2)
	full := s.send(t.Context(), &e)
	testkit.Must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	if n := wholeLines(t, s.path); n != 1 || full.Problem == "" {
		t.Errorf("%d lines on a full disk, want 1: %+v", n, full)
	}
	if a := s.send(t.Context(), &e); a.Problem != "" || wholeLines(t, s.path) != 2 {
		t.Errorf("the same event when there is room: %+v", a)
	}
}

// A named pipe gets each line once, when it has a reader.
func TestNamedPipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	testkit.Must(t, syscall.Mkfifo(name, 0o600))
	s := newLineSender(name, nil)
	testkit.Must(t, s.try())
	answer := make(chan Answer)
	go func() {
		e := event(1)
		answer <- s.send(t.Context(), &e)
	}()
	text, err := os.ReadFile(name)
	if a := <-answer; err != nil || a.Problem != "" || json.Unmarshal(text, new(message)) != nil {
		t.Errorf("%q, %v, %+v", text, err, a)
	}
}

// refuseWrites makes every write into an open file fail, as a full disk does, until the function that it returns is called:
// meanwhile the descriptor of the file is one that cannot write.
func refuseWrites(t *testing.T, path string) (accept func()) {
	t.Helper()
	open, _ := os.ReadDir("/proc/self/fd")
	for _, one := range open {
		if name, err := os.Readlink("/proc/self/fd/" + one.Name()); err == nil && name == path {
			fd, _ := strconv.Atoi(one.Name())
			become := func(flag int) {
				other, err := os.OpenFile(path, flag, 0)
				if err == nil {
					err = errors.Join(syscall.Dup3(int(other.Fd()), fd, syscall.O_CLOEXEC), other.Close())
				}
				if err != nil {
					t.Error(err)
				}
			}
			become(os.O_RDONLY)
			return func() { become(os.O_RDWR) }
		}
	}
	t.Error("the file is not open")
	return func() {}
}

// fullShop runs an engine whose disk is full from the first of three webhooks on, for an hour. It returns how many webhooks
// arrived in the hour, and what is stored a minute after the disk has room again.
func fullShop(t *testing.T, answer func(w http.ResponseWriter)) (sent int, stored map[State][]Delivery) {
	t.Helper()
	const runaway = 100
	shop, at, path := newShop(t, nil)
	fill := sync.OnceValue(func() (free func()) { return sync.OnceFunc(refuseWrites(t, path)) })
	shop.answers(func(n int, w http.ResponseWriter) {
		free := fill()
		if n == runaway {
			t.Errorf("%d webhooks of three events", n)
			free()
		}
		answer(w)
	})
	synctest.Test(t, func(t *testing.T) {
		f := run(t, path, at)
		f.outbox.add(event(1), event(2), event(3))
		time.Sleep(time.Hour)
		sent = len(shop.got(t))
		shop.answers(nil)
		fill()()
		time.Sleep(time.Minute)
		stored = map[State][]Delivery{}
		for _, s := range States {
			stored[s] = f.list(t, s)
		}
		f.end()
		if n := strings.Count(f.log.String(), "result of a delivery not stored"); n == 0 || n > 61 {
			t.Errorf("%d lines about results that were not stored in an hour", n)
		}
	})
	return sent, stored
}

// While the disk is full and no result can be stored, no webhook is sent more often than the schedule says, and none
// that the receiver has is sent again. When there is room the results are stored.
func TestFullDiskWebhooks(t *testing.T) {
	const events = 3
	t.Run("refused", func(t *testing.T) {
		sent, stored := fullShop(t, func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) })
		if sent < 2*events || sent > 4*events { // at once, after 5 s, 5 min and 30 min
			t.Errorf("%d tries in an hour", sent)
		}
		for _, d := range stored[Waiting] {
			if d.Tries != sent/events || d.Status != http.StatusInternalServerError || !d.Due.After(d.Tried) {
				t.Errorf("stored is %+v after %d tries of %d events", d, sent, events)
			}
		}
		if len(stored[Waiting]) != events {
			t.Errorf("stored are %+v", stored)
		}
	})
	t.Run("accepted", func(t *testing.T) {
		sent, stored := fullShop(t, func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) })
		if sent != events || len(stored[Delivered]) != events {
			t.Errorf("sent %d of %d events, stored are %+v", sent, events, stored)
		}
	})
	t.Run("gone", func(t *testing.T) {
		sent, stored := fullShop(t, func(w http.ResponseWriter) { w.WriteHeader(http.StatusGone) })
		if sent != events || len(stored[Failed]) != events {
			t.Errorf("sent %d of %d events, stored are %+v", sent, events, stored)
		}
	})
	t.Run("paused", func(t *testing.T) {
		sent, stored := fullShop(t, func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "7200")
			w.WriteHeader(http.StatusTooManyRequests)
		})
		if sent != events || len(stored[Waiting]) != events {
			t.Errorf("sent %d of %d events, stored are %+v", sent, events, stored)
		}
	})
}
