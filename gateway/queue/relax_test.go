package queue_test

import (
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"stint/gateway/queue"
)

// After a change of the rules, and after a start, records that wait for a limit are asked for at once, and those
// that were tried not before their pause.
func TestRelaxed(t *testing.T) {
	in(t, func(t *testing.T, s *site) {
		var version atomic.Int64
		s.worker.Stop(t.Context())
		s.rules = func() any { return version.Load() }
		s.worker = s.newWorker()
		var hold atomic.Bool
		asked := 0
		s.gate = func(r *queue.Record) (queue.Admission, error) {
			if r.URI == "/asked" {
				asked++
				if hold.Load() {
					return queue.Admission{Wait: time.Hour}, nil
				}
			}
			return queue.Admission{}, nil
		}
		s.upstream = func(_ int, w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/tried" {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}
		sent := func(want ...string) {
			t.Helper()
			var got []string
			for _, c := range s.calls() {
				got = append(got, c.uri)
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("after %v: sent %q, want %q", time.Since(s.began), got, want)
			}
		}
		put := func(path string, key byte, wait time.Duration) {
			t.Helper()
			r, e := order("x"), excess(key, "")
			r.URL.Path, r.URL.RawQuery, e.RetryAfter = path, "", wait
			e.Settings.Tries = 20
			s.accept(r, e)
		}
		hold.Store(true)
		put("/first", 1, time.Hour)
		put("/second", 1, 2*time.Hour)
		put("/asked", 2, 0)
		put("/tried", 3, 0)
		pass(10 * time.Second) // "/tried" comes after 0, 1, 3 and 7 s, and then after 15 s
		sent("/tried", "/tried", "/tried", "/tried")
		hold.Store(false)
		version.Add(1)
		pass(time.Second)
		sent("/tried", "/tried", "/tried", "/tried", "/first", "/second", "/asked")
		if asked != 2 {
			t.Errorf("asked %d times", asked)
		}
		pass(5 * time.Second)
		sent("/tried", "/tried", "/tried", "/tried", "/first", "/second", "/asked", "/tried")
		put("/first", 1, time.Hour)
		s.worker.Stop(t.Context())
		version.Add(1)
		s.worker = s.newWorker()
		pass(time.Second)
		sent("/tried", "/tried", "/tried", "/tried", "/first", "/second", "/asked", "/tried", "/first")
	})
}
