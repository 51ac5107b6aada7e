package queue_test

import (
	"net/http"
	"testing"

	"stint/gateway/queue"
	"stint/limiter"
	"stint/rule"
)

// What is not UTF-8, such as a name in Latin-1, comes through the queue as it was: in the header of the request
// and of the answer, in the idempotency key, and in the descriptors, which name the bucket to take from.
func TestNotUTF8(t *testing.T) {
	in(t, func(t *testing.T, s *site) {
		const latin = "M\xfcller"
		s.upstream = func(_ int, w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Name", latin) }
		value := ""
		s.gate = func(r *queue.Record) (queue.Admission, error) {
			value = r.Descriptors[0].Entries[0].Value
			return queue.Admission{}, nil
		}
		r := order("x")
		r.Header.Set("X-Name", latin)
		r.Header.Set("Idempotency-Key", "\xff")
		e := excess(1, "")
		e.Descriptors = []limiter.Descriptor{{Entries: []rule.Entry{{Key: "name", Value: latin}}, Cost: 1}}
		_, path := s.accept(r, e)
		s.settle()
		calls := s.calls()
		if len(calls) != 1 || calls[0].header.Get("X-Name") != latin || calls[0].key != "\xff" || value != latin {
			t.Errorf("the upstream got %+v, the gate %q", calls, value)
		}
		if w := s.status("GET", path, queue.Anonymous(alice)); w.Code != http.StatusOK || w.Header().Get("X-Name") != latin {
			t.Errorf("the client got %d %v", w.Code, w.Header())
		}
	})
}
