package queue_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stint/gateway/queue"
	"stint/internal/testkit"
)

// leaping is a storage whose clock leaps over the end of each claim.
type leaping struct{ queue.Lines }

func (l leaping) Claim(ctx context.Context, worker string, lease time.Duration) (*queue.Entry, time.Duration, error) {
	return l.Lines.Claim(ctx, worker, -time.Second)
}

// A worker that gets a record again which it is sending, because the clock leapt, does not send it twice.
func TestClockLeaps(t *testing.T) {
	in(t, func(t *testing.T, s *site) {
		s.upstream = func(int, http.ResponseWriter, *http.Request) { busy(5 * time.Second) }
		s.worker.Stop(t.Context())
		whole := s.storage
		s.storage.Lines = leaping{whole.Lines}
		s.worker = s.newWorker()
		s.storage = whole
		_, path := s.accept(order("x"), excess(1, ""))
		pass(time.Minute)
		if w := s.status("GET", path, queue.Anonymous(alice)); w.Code != http.StatusOK || len(s.calls()) != 1 {
			t.Errorf("%d, sent %d times", w.Code, len(s.calls()))
		}
	})
}

// mute is a storage that makes a change, and whose answer about it gets lost, a number of times.
type mute struct {
	queue.Records
	times int
}

func (m *mute) Change(ctx context.Context, id string, edit func(*queue.Entry) error) error {
	err := m.Records.Change(ctx, id, edit)
	if err == nil && m.times > 0 {
		m.times--
		return errors.New("connection lost")
	}
	return err
}

// An outcome that is stored is not reported as lost if only the answer of the storage was.
func TestStoredUnheard(t *testing.T) {
	in(t, func(t *testing.T, s *site) {
		s.upstream = func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}
		s.worker.Stop(t.Context())
		whole := s.storage
		s.storage.Records = &mute{whole.Records, 2} // the failed try, and the outcome
		s.worker = s.newWorker()
		s.storage = whole
		_, path := s.accept(order("x"), excess(1, ""))
		pass(time.Minute)
		if w := s.status("GET", path, queue.Anonymous(alice)); w.Code != http.StatusOK || len(s.calls()) != 2 {
			t.Errorf("%d, sent %d times", w.Code, len(s.calls()))
		}
		if log := s.logged.String(); s.counts.Lost.Load() != 0 || s.counts.Delivered.Load() != 1 || strings.Contains(log, "could not be stored") {
			t.Errorf("%d lost, %d delivered; log:\n%s", s.counts.Lost.Load(), s.counts.Delivered.Load(), log)
		}
	})
}

// A record whose last try ended with its gateway is dead, and is not sent again.
func TestLastTryKilled(t *testing.T) {
	in(t, func(t *testing.T, s *site) {
		s.worker.Stop(t.Context())
		_, path := s.accept(order("x"), excess(1, ""))
		id := strings.TrimPrefix(path, queue.StatusPath)
		testkit.Must(t, s.storage.Change(t.Context(), id, func(e *queue.Entry) error {
			e.State, e.Claimer, e.Sending, e.Tries = queue.Claimed, "killed", true, int(settings().Tries)-1
			e.At = time.Now().Add(time.Second)
			return nil
		}))
		s.worker = s.newWorker()
		pass(time.Minute)
		if w := s.status("GET", path, queue.Anonymous(alice)); w.Header().Get(queue.StateHeader) != "dead" || len(s.calls()) != 0 {
			t.Errorf("%v, sent %d times more", w.Header(), len(s.calls()))
		}
	})
}

// away is a storage that claims nothing while it is away.
type away struct {
	queue.Lines
	is atomic.Bool
}

func (a *away) Claim(ctx context.Context, worker string, lease time.Duration) (*queue.Entry, time.Duration, error) {
	if a.is.Load() {
		return nil, 0, errors.New("no answer")
	}
	return a.Lines.Claim(ctx, worker, lease)
}

// Failures that repeat fill no log: while a storage is away for half an hour a gateway writes some lines, and one when
// it is back.
func TestStorageAwayLog(t *testing.T) {
	in(t, func(t *testing.T, s *site) {
		s.worker.Stop(t.Context())
		whole := s.storage
		lines := &away{Lines: whole.Lines}
		s.storage.Lines = lines
		s.publish = func(context.Context) error {
			if lines.is.Load() {
				return errors.New("no answer")
			}
			return nil
		}
		lines.is.Store(true)
		s.worker = s.newWorker()
		s.storage = whole
		pass(30 * time.Minute)
		lines.is.Store(false)
		pass(time.Minute)
		log := s.logged.String()
		for _, what := range []string{"claim", "publish"} {
			if failed, again := strings.Count(log, "cannot "+what), strings.Count(log, what+"ed again"); failed < 5 || failed > 10 || again != 1 {
				t.Errorf("%s: %d lines about failures and %d that it works again, want 5 to 10 and 1", what, failed, again)
			}
		}
	})
}
