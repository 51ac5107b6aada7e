package wire

import (
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
)

// parse reads a message like Receive, and does nothing with it. The memory of its keys bounds what
// a node keeps of it.
func parse(message []byte, now stint.Instant) error {
	r := NewReader(message)
	head := r.Cut(2)
	kind := KindOf(head)
	r.Fixed64()
	number := r.Number()
	switch kind {
	case KindReport:
		for r.More() {
			r.Delta(number)
		}
	case KindReply:
		number = r.Number()
		for r.More() {
			r.Delta(number)
		}
	case KindRepair:
		r.Cut(1)
		r.Progress(false)
	case KindEntries:
		r.Number()
		total := r.Number()
		r.Number()
		if total > 0 {
			r.Progress(false)
		}
		for r.More() {
			r.Entry(head[0] != WithoutPeriods, now)
		}
	case KindQuery:
		for r.More() {
			r.Limit()
			_ = stint.Key(r.Bytes())
		}
	}
	return r.Err
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
	message := func(kind byte, write func(w *Writer)) []byte {
		var w Writer
		w.Begin(kind, 7)
		write(&w)
		return w.Data
	}
	var seeds [][]byte
	for _, n := range []int{1, 60, 500, 12_000} {
		for _, of := range []*time.Location{nil, zone} {
			list := limits(n, of)
			asks := message(KindQuery, func(w *Writer) {
				w.Number(1)
				for _, l := range list {
					w.Limit(l)
					w.Bytes("k")
				}
			})
			seeds = append(seeds, asks, message(KindReport, func(w *Writer) {
				w.Number(9)
				for _, l := range list {
					w.Delta(&Delta{Limit: l, Key: "k", Count: Count{Born: 9, Number: 9, Taken: 2}, Added: 1})
				}
			}))
		}
		seeds = append(seeds, message(KindQuery, func(w *Writer) {
			w.Number(1)
			for range n {
				w.Limit(stint.MustLimit(stint.Spec{Requests: 5, Per: time.Minute}))
				w.Bytes("key")
			}
		}), message(KindReport, func(w *Writer) {
			w.Number(9)
			l := limits(1, nil)[0]
			for range n {
				w.Delta(&Delta{Limit: l, Key: "kk", Count: Count{Born: 9, Number: 9, Taken: 2}, Added: 1})
			}
		}), message(KindRepair, func(w *Writer) {
			w.Number(1)
			w.Data = append(w.Data, 1)
			w.Progress(make([]Progress, n), false)
		}), message(KindEntries, func(w *Writer) {
			for range 4 {
				w.Number(0)
			}
			w.Entry(&Entry{Limit: limits(1, nil)[0], Key: "k", Counts: make([]OriginCount, n)}, true, now)
		}), message(KindEntries, func(w *Writer) {
			for range 4 {
				w.Number(0)
			}
			for range n {
				w.Entry(&Entry{Limit: limits(1, nil)[0], Key: "k", Counts: []OriginCount{{Origin: 1, Count: Count{Born: 1}}}}, true, now)
			}
		}), message(KindEntries, func(w *Writer) {
			for range 4 {
				w.Number(0)
			}
			w.Entry(&Entry{Limit: limits(1, nil)[0], Key: "k", Counts: []OriginCount{{Count: Count{Born: 1}, Marks: make([]Mark, n)}}}, true, now)
		}))
	}
	testkit.Frugal(t, seeds, func(input []byte) { _ = parse(input, now) })
}

// An anchor day arrives as it was sent.
func TestAnchor(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Requests: 5, Calendar: stint.Month, Anchor: 31, Zone: time.UTC})
	var w Writer
	w.Begin(KindQuery, 7)
	w.Limit(limit)
	r := NewReader(w.Data)
	r.Cut(2)
	r.Fixed64()
	if got := r.Limit(); got == nil || !got.ForStores().Same(limit) {
		t.Errorf("got %v, error %v", got, r.Err)
	}
}

// A message in which every key has a limit of its own is taken, however many there are.
func TestManyLimitsInOneMessage(t *testing.T) {
	for _, n := range []int{100, 5000} {
		var w Writer
		w.Begin(KindReport, 7)
		w.Number(9)
		for i := range n {
			l := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: uint32(1000 + i), Per: time.Minute, Burst: 500})
			w.Delta(&Delta{Limit: l, Key: stint.Key("r5:api/u4:" + strings.Repeat("x", 4)), Count: Count{Born: 9, Number: 9, Taken: 2}, Added: 1})
		}
		if err := parse(w.Data, stint.At(time.Now())); err != nil {
			t.Errorf("%d limits: %v", n, err)
		}
	}
}
