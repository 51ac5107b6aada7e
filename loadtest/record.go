package loadtest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"stint/internal/text"
)

const (
	// mostPassed bounds the allowed calls that a run stores for the check: 64 MiB.
	mostPassed = 2 << 20

	// mostKinds bounds the different errors that a report lists.
	mostKinds = 5

	// late is the delay of a start from which a call counts as late.
	late = time.Millisecond
)

// record has the results of a run, in shards so that workers rarely wait for each other.
type record struct {
	shards []*shard
	room   int // most passed calls of a shard
}

// shard has the results of some workers.
type shard struct {
	mu              sync.Mutex
	allowed, denied int64
	degraded, late  int64
	failed          int64
	kinds           map[string]int64
	response        times // from the planned start
	service         times // from the sending
	passed          []Passed
	unchecked       int64 // allowed calls beyond the room of passed
}

func newRecord(workers int, check bool) *record {
	n := min(workers, runtime.GOMAXPROCS(0))
	r := &record{shards: make([]*shard, n)}
	if check {
		r.room = mostPassed / n
	}
	for i := range r.shards {
		r.shards[i] = &shard{kinds: map[string]int64{}, response: newTimes(), service: newTimes()}
	}
	return r
}

// result is what came of a call. Its times are since the run began.
type result struct {
	Passed
	due    time.Duration
	answer Answer
	err    error
}

// add counts a result. A call that was planned has a due time.
func (s *shard) add(r result, room int, planned bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if planned && r.Sent-r.due >= late {
		s.late++
	}
	if r.err != nil {
		s.failed++
		s.kind(r.err)
		if !errors.Is(r.err, context.DeadlineExceeded) {
			return
		}
		// Who got no answer has waited all the same.
	}
	s.service.add(r.Answered-r.Sent, 1)
	if planned {
		s.response.add(r.Answered-r.due, 1)
	}
	switch {
	case r.err != nil:
	case r.answer.Allowed:
		s.allowed++
		if len(s.passed) < room {
			s.passed = append(s.passed, r.Passed)
		} else {
			s.unchecked++
		}
	default:
		s.denied++
	}
	if r.answer.Degraded {
		s.degraded++
	}
}

func (s *shard) kind(err error) {
	name := text.Visible(err.Error(), 200)
	if errors.Is(err, context.DeadlineExceeded) {
		name = "no answer in time"
	}
	if _, known := s.kinds[name]; !known && len(s.kinds) == mostKinds {
		name = "others"
	}
	s.kinds[name]++
}

// progress returns the counts so far.
func (r *record) progress(took time.Duration) Progress {
	p := Progress{Took: took}
	for _, s := range r.shards {
		s.mu.Lock()
		p.Allowed += s.allowed
		p.Denied += s.denied
		p.Errors += s.failed
		s.mu.Unlock()
	}
	return p
}

// total adds up all shards. All workers have ended.
func (r *record) total() *shard {
	sum := r.shards[0]
	for _, s := range r.shards[1:] {
		sum.allowed += s.allowed
		sum.denied += s.denied
		sum.degraded += s.degraded
		sum.late += s.late
		sum.failed += s.failed
		sum.unchecked += s.unchecked
		for name, n := range s.kinds {
			sum.kinds[name] += n
		}
		sum.response.Merge(s.response.Histogram)
		sum.service.Merge(s.service.Histogram)
		sum.passed = slices.Concat(sum.passed, s.passed)
	}
	return sum
}
