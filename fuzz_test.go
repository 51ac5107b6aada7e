package stint_test

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"stint"
	tables "stint/store/storetest/model"
)

// FuzzState decodes arbitrary bytes. A decoded state must encode to the same state, and every
// algorithm must decide with it without a panic and with numbers in range.
func FuzzState(f *testing.F) {
	for a := range stint.Unlimited {
		limit := stint.MustLimit(stint.Spec{Algorithm: a, Requests: 100, Per: time.Minute})
		var st stint.State
		for i := range 20 {
			limit.Force(&st, zero+stint.Instant(i*i*100_000), uint64(i))
			b, err := st.AppendBinary(nil)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	var st stint.State
	ladder.Force(&st, zero, 9)
	b, _ := st.AppendBinary(nil) // the error is always nil
	f.Add(b)
	f.Add([]byte{})
	f.Add([]byte{2, 0, 0, 0})
	f.Add([]byte("\x02\xe8o\xa6\x00\x06\x00")) // a time of writing, and no log
	f.Add([]byte("\x01\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		st := stint.State{T: 7, N: 7}
		if err := st.UnmarshalBinary(b); err != nil {
			if st != (stint.State{T: 7, N: 7}) {
				t.Fatalf("%v, and yet it became %+v", err, st)
			}
			return
		}
		written, err := st.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := clone(t, &st).AppendBinary(nil)
		if err != nil || !bytes.Equal(written, again) {
			t.Fatalf("%x was written as %x and then as %x", b, written, again)
		}
		limits := []*stint.Limit{ladder}
		for a := range stint.Unlimited {
			limits = append(limits, stint.MustLimit(stint.Spec{Algorithm: a, Requests: 3, Per: time.Minute}))
		}
		for _, limit := range limits {
			a := limit.Algorithm()
			copied := clone(t, &st)
			for _, now := range []stint.Instant{0, zero, stint.MaxInstant} {
				for _, d := range []stint.Decision{
					limit.Take(copied, now, 1), limit.Force(copied, now, stint.MaxCost), limit.Refund(copied, now, 2, nil),
				} {
					if d.Remaining < 0 || d.Remaining > d.Limit || d.RetryAfter < 0 || d.ResetAfter < 0 || d.Delay < 0 {
						t.Fatalf("%v at %d of %x: %+v", a, now, b, d)
					}
				}
			}
		}
	})
}

// FuzzTrace reads anything as a step table without a panic; what it accepts names
// only limits and costs that exist.
func FuzzTrace(f *testing.F) {
	f.Add("limit token_bucket requests=5 per=1s burst=5\n 200ms a 1 allow remaining=0 reset=1s\n 200ms a 1 deny retry=never # why\n")
	f.Add("limit sliding_log requests=5 per=10s min_interval=1s count_denied=true overdraw=false\n 0s b 0 allow\n")
	f.Add("limit leaky_bucket requests=10 per=1s max_wait=1s\nlimit fixed_window align=first\nlimit sliding_window blocks=7")
	f.Add("limit token_bucket refill=step requests=4294967296")
	f.Add("limit penalty requests=3 per=1m ladder=1m,1h decay=24h jitter=100000\n 0s a 9 force level=1\n 1s a 1 settle\n 2s a 0 reset")
	f.Fuzz(func(t *testing.T, text string) {
		sections, err := tables.ReadTrace("fuzz", bytes.NewReader([]byte(text)))
		if err != nil {
			return
		}
		for _, section := range sections {
			if section.Limit == nil || section.Name == "" {
				t.Fatalf("%+v", section)
			}
			for _, step := range section.Steps {
				if step.Line == 0 || step.Key == "" {
					t.Fatalf("%+v", step)
				}
			}
		}
	})
}

// fuzzLimit reads a limit from the first bytes, nil if it is refused.
func fuzzLimit(b []byte) *stint.Limit {
	spec := stint.Spec{
		Algorithm: stint.Algorithm(b[0] % uint8(stint.Unlimited+1)),
		Requests:  binary.LittleEndian.Uint32(b[1:]),
		Per:       time.Duration(binary.LittleEndian.Uint64(b[5:])%uint64(stint.MaxPer)) / time.Microsecond * time.Microsecond,
	}
	flags, number := b[13], binary.LittleEndian.Uint32(b[14:])
	switch spec.Algorithm {
	case stint.TokenBucket:
		spec.Burst, spec.Step = number, flags&1 != 0
	case stint.LeakyBucket:
		spec.Burst, spec.MaxWait = number>>8, time.Duration(flags)*time.Second
	case stint.FixedWindow:
		spec.FromFirst = flags&1 != 0
	case stint.SlidingLog:
		spec.MinInterval, spec.CountDenied = min(spec.Per, time.Duration(number)*time.Microsecond), flags&2 != 0
	case stint.SlidingWindow:
		spec.Blocks, spec.StartUsedUp = int(number%(stint.MaxBlocks+1)), flags&1 != 0
	}
	spec.Overdraw = flags&4 != 0 && spec.Algorithm != stint.LeakyBucket
	limit, err := stint.NewLimit(spec)
	if err != nil {
		return nil
	}
	return limit
}

// FuzzTake plays any history under any limit: costs and times at will, also
// backwards, forced and given back. Numbers stay in range, a refused take passes
// after its wait, and packed words answer as states do.
func FuzzTake(f *testing.F) {
	for a := range stint.Unlimited {
		for flags := range byte(8) {
			head := []byte{byte(a), 3, 0, 0, 0, 0, 0xca, 0x9a, 0x3b, 0, 0, 0, 0, flags, 4, 0, 0, 0}
			f.Add(append(head, "take one and then three more, wait, take and force and give back"...))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 18 {
			return
		}
		limit := fuzzLimit(b)
		if limit == nil {
			return
		}
		var st stint.State
		now := zero
		for b = b[18:]; len(b) >= 8; b = b[8:] {
			number := binary.LittleEndian.Uint64(b)
			op, cost, wait := number&7, number>>3&7, int64(number)>>16
			if op&4 != 0 {
				cost = number >> 3 & stint.MaxCost
			}
			now = min(max(0, now+stint.Instant(wait>>(number>>8&31))), stint.MaxInstant)
			var d stint.Decision
			switch op & 3 {
			case 0:
				d = limit.Force(&st, now, cost)
			case 1:
				d = limit.Refund(&st, now, cost, nil)
			default:
				packed, word := stint.Decision{}, uint64(0)
				fits := limit.ForStores().Packed() && !unpacked(limit, &st)
				if fits {
					word = limit.ForStores().TakeWord(limit.ForStores().Pack(&st), now, cost, &packed)
				}
				d = limit.Take(&st, now, cost)
				if fits && (packed != d || word != limit.ForStores().Pack(&st) || (word>>52 != 0) != unpacked(limit, &st)) {
					t.Fatalf("%+v at %d, cost %d:\n word %x %+v\nstate %+v %+v", limit.Spec(), now, cost, word, packed, st, d)
				}
			}
			fuzzDecision(t, limit, &st, d, cost)
		}
	})
}

// unpacked reports whether a state does not fit into a word: it carries the time of its last write, or
// its window was moved to a time that is none of the limit's own.
func unpacked(limit *stint.Limit, st *stint.State) bool {
	moved := limit.Algorithm() == stint.FixedWindow && st.N > 0 && st.T%limit.Spec().Per.Microseconds() != 0
	return st.Written != 0 || moved
}

func fuzzDecision(t *testing.T, limit *stint.Limit, st *stint.State, d stint.Decision, cost uint64) {
	t.Helper()
	if d.Remaining < 0 || d.Remaining > d.Limit || d.RetryAfter < 0 || d.ResetAfter < 0 || d.Delay < 0 || d.Allowed == (d.RetryAfter > 0) {
		t.Fatalf("%+v, cost %d: %+v", limit.Spec(), cost, d)
	}
	clone(t, st)
	if d.Allowed || d.RetryAfter == stint.Never {
		return
	}
	if later := d.At.Add(d.RetryAfter); !limit.Test(st, later, cost).Allowed || limit.Test(st, later-1, cost).Allowed {
		t.Fatalf("%+v, cost %d: the wait is not exact: %+v", limit.Spec(), cost, d)
	}
}
