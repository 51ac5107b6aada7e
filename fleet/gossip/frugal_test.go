package gossip

import (
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
)

// parse reads a message as Receive does, and does nothing with what it says. What a node
// keeps of it is bounded by the memory of its keys.
func parse(message []byte, now stint.Instant) error {
	r := newReader(message)
	kind := kindOf(r.cut(2))
	r.eight()
	number := r.number()
	switch kind {
	case told:
		for r.more() {
			r.news(number)
		}
	case answer:
		number = r.number()
		for r.more() {
			r.news(number)
		}
	case want:
		r.cut(1)
		r.known()
	case entries:
		r.number()
		total := r.number()
		r.number()
		if total > 0 {
			r.known()
		}
		for r.more() {
			r.item(now)
		}
	case ask:
		for r.more() {
			r.limit()
			_ = stint.Key(r.bytes())
		}
	}
	return r.err
}

// However the bytes of a message are chosen, reading it takes little memory for each.
func TestDecodersAreFrugal(t *testing.T) {
	now := stint.At(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	zone, err := time.LoadLocation("America/Argentina/ComodRivadavia")
	testkit.Must(t, err)
	limits := func(n int, of *time.Location) (list []*stint.Limit) {
		for i := range n {
			spec := stint.Spec{Algorithm: stint.FixedWindow, Requests: uint32(i + 1), Per: time.Second}
			if of != nil {
				spec.Per, spec.Calendar, spec.Zone = 0, stint.Day, of
			}
			list = append(list, stint.MustLimit(spec))
		}
		return list
	}
	message := func(kind byte, write func(w *writer)) []byte {
		var w writer
		w.begin(kind, 7)
		write(&w)
		return w.b
	}
	var seeds [][]byte
	for _, n := range []int{1, 60, 500, 12_000} {
		for _, of := range []*time.Location{nil, zone} {
			list := limits(n, of)
			asks := message(ask, func(w *writer) {
				w.number(1)
				for _, l := range list {
					w.limit(l)
					w.bytes("k")
				}
			})
			seeds = append(seeds, asks, message(told, func(w *writer) {
				w.number(9)
				for _, l := range list {
					w.news(&news{limit: l, key: "k", count: count{born: 9, number: 9, taken: 2}, n: 1})
				}
			}))
		}
		seeds = append(seeds, message(ask, func(w *writer) {
			w.number(1)
			for range n {
				w.limit(stint.MustLimit(stint.Spec{Requests: 5, Per: time.Minute}))
				w.bytes("key")
			}
		}), message(told, func(w *writer) {
			w.number(9)
			l := limits(1, nil)[0]
			for range n {
				w.news(&news{limit: l, key: "kk", count: count{born: 9, number: 9, taken: 2}, n: 1})
			}
		}), message(want, func(w *writer) {
			w.number(1)
			w.b = append(w.b, 1)
			w.known(make([]known, n))
		}), message(entries, func(w *writer) {
			for range 4 {
				w.number(0)
			}
			w.item(&item{limit: limits(1, nil)[0], key: "k", counts: make([]whose, n)}, now)
		}), message(entries, func(w *writer) {
			for range 4 {
				w.number(0)
			}
			for range n {
				w.item(&item{limit: limits(1, nil)[0], key: "k", counts: []whose{{origin: 1, count: count{born: 1}}}}, now)
			}
		}))
	}
	testkit.Frugal(t, seeds, func(input []byte) { _ = parse(input, now) })
}

// A message in which every key has a limit of its own is taken, however many there are.
func TestManyLimitsInOneMessage(t *testing.T) {
	for _, n := range []int{100, 5000} {
		var w writer
		w.begin(told, 7)
		w.number(9)
		for i := range n {
			l := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: uint32(1000 + i), Per: time.Minute, Burst: 500})
			w.news(&news{limit: l, key: stint.Key("r5:api/u4:" + strings.Repeat("x", 4)), count: count{born: 9, number: 9, taken: 2}, n: 1})
		}
		if err := parse(w.b, stint.At(time.Now())); err != nil {
			t.Errorf("%d limits: %v", n, err)
		}
	}
}
