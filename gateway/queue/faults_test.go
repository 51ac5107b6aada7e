package queue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stint/gateway/queue"
	"stint/httplimit"
	"stint/limiter/line"
)

// faulty is a storage that fails: puts at once, look-ups after the whole time that they have.
type faulty struct {
	queue.Lines
	put     error
	lookUps int
}

func (f *faulty) Put(context.Context, *queue.Entry, queue.Bounds) (int, error) { return 0, f.put }

func (f *faulty) Holds(ctx context.Context, _ string) (bool, error) {
	f.lookUps++
	<-ctx.Done()
	return false, ctx.Err()
}

// Faults of the storage that come with every request are logged once a minute, with their number, and after a
// look-up that failed none is made for a second.
func TestFaultsAreBounded(t *testing.T) {
	for event, put := range map[string]error{
		"the queue takes no requests": fmt.Errorf("%w: no space left on device", queue.ErrFull),
		"cannot queue a request":      errors.New("disk"),
	} {
		synctest.Test(t, func(t *testing.T) {
			var logged bytes.Buffer
			lines := &faulty{put: put}
			q := queue.New(queue.Options{Storage: queue.Storage{Lines: lines}, Log: slog.New(slog.NewTextHandler(&logged, nil))})
			accept := func() {
				t.Helper()
				err := q.Accept(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", http.NoBody), excess(1, "ann"))
				if err == nil || errors.Is(err, httplimit.ErrQueueFull) != errors.Is(put, queue.ErrFull) {
					t.Error(err)
				}
			}
			for range 100 {
				accept()
			}
			began := time.Now()
			for range 10 {
				q.Holds(line.ID{Rule: "orders"})
			}
			if took := time.Since(began); took != 500*time.Millisecond || lines.lookUps != 1 {
				t.Errorf("%d look-ups in %v", lines.lookUps, took)
			}
			time.Sleep(time.Second)
			if q.Holds(line.ID{Rule: "orders"}); lines.lookUps != 2 {
				t.Errorf("%d look-ups a second later", lines.lookUps)
			}
			time.Sleep(time.Minute)
			accept()
			text := logged.String()
			if n := strings.Count(text, event); n != 2 || !strings.Contains(text, "before=100") || strings.Count(text, "cannot look up a line") != 1 {
				t.Errorf("%d lines of %q in\n%s", n, event, text)
			}
		})
	}
}
