package stint_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"stint"
)

// A busy log costs a few bytes an entry, entries of one microsecond are one, and the
// memory of a busy hour is given back when it is over.
func TestLogMemory(t *testing.T) {
	const n = 10_000
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: n, Per: time.Hour})
	var st stint.State
	if st.Log.Size() != 0 || st.Log.Units() != 0 {
		t.Errorf("an untouched key holds %d bytes, %d units", st.Log.Size(), st.Log.Units())
	}
	for range n / 2 {
		limit.Take(&st, zero, 1)
	}
	if size := st.Log.Size(); size > 200 || st.Log.Units() != n/2 {
		t.Errorf("%d units of one microsecond cost %d bytes", st.Log.Units(), size)
	}
	now := zero
	for range n / 2 {
		now += 10_000
		limit.Take(&st, now, 1)
	}
	if size := st.Log.Size(); size > 8*n/2 || st.Log.Units() != n {
		t.Errorf("%d units at %d times cost %d bytes", st.Log.Units(), n/2, size)
	}
	now = now.Add(time.Hour - time.Second)
	limit.Take(&st, now, 1)
	if size := st.Log.Size(); size > 1000 || st.Log.Units() > n/2 {
		t.Errorf("an hour later %d units cost %d bytes", st.Log.Units(), size)
	}
}

// A copy stays what it was whatever becomes of the state that it was made of, and the
// other way round, though no entries were copied.
func TestCopyTo(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 7))
	written := func(st *stint.State) string {
		b, err := st.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: 500, Per: time.Minute})
	states := make([]stint.State, 3)
	now := zero
	for step := range 20_000 {
		from, to := rng.IntN(len(states)), rng.IntN(len(states))
		if step%7 == 0 {
			states[from].CopyTo(&states[to])
		}
		var before []string
		for i := range states {
			before = append(before, written(&states[i]))
		}
		now = now.Add(time.Duration(rng.IntN(300)) * time.Millisecond)
		switch step % 50 {
		case 0:
			now = now.Add(time.Duration(rng.IntN(90)) * time.Second)
		case 1:
			limit.Refund(&states[to], now, 20, nil)
		}
		limit.Take(&states[to], now, 1+uint64(rng.IntN(3)))
		for i := range states {
			if i != to && written(&states[i]) != before[i] {
				t.Fatalf("step %d: a take from state %d changed state %d", step, to, i)
			}
		}
	}
	if new(stint.State).CopyTo(&states[0]); states[0] != (stint.State{}) {
		t.Errorf("a copy of nothing is %+v", states[0])
	}
	if allocs := testing.AllocsPerRun(100, func() { states[1].CopyTo(&states[2]) }); allocs != 0 {
		t.Errorf("a copy over another one allocates %v times", allocs)
	}
}

// Sixty blocks keep at most 61 counts, whatever is taken, in less than 1 KiB.
func TestBlocksMemory(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.SlidingWindow, Requests: 1_000_000, Per: time.Minute, Blocks: 60})
	var st stint.State
	now := zero
	for range 100_000 {
		now += 6000
		limit.Take(&st, now, 100)
		if size := st.Log.Size(); size > 1024 {
			t.Fatalf("%d bytes after %v", size, now.Sub(zero))
		}
	}
}

// Bytes that no state was written as are an error, and the state stays as it was.
func TestDamagedStates(t *testing.T) {
	state := func(numbers ...uint64) []byte {
		b := []byte{1}
		for i, n := range numbers {
			if i < 2 {
				b = binary.AppendVarint(b, int64(n))
			} else {
				b = binary.AppendUvarint(b, n)
			}
		}
		return b
	}
	for _, test := range []struct {
		name string
		b    []byte
	}{
		{"nothing", nil},
		{"another version", []byte{2, 0, 0, 0}},
		{"cut in a number", []byte{1, 0x80}},
		{"no entries", state(1, 2)},
		{"before 1970", state(1<<64-1, 0, 0)},
		{"after the end of time", state(1<<52, 0, 0)},
		{"more entries than bytes", state(0, 0, 1<<40, 1, 1)},
		{"an entry of nothing", state(0, 0, 1, 5, 0)},
		{"two entries of one time", state(0, 0, 2, 5, 1, 0, 1)},
		{"an entry after the end of time", state(0, 0, 2, 1<<51, 1, 1<<51, 1)},
		{"too many units", state(0, 0, 2, 1, 1<<51, 1, 1<<51)},
		{"a byte too many", append(state(0, 0, 0), 0)},
		{"cut in an entry", state(0, 0, 1, 5)},
	} {
		st := stint.State{T: 7}
		if err := st.UnmarshalBinary(test.b); err == nil || st != (stint.State{T: 7}) {
			t.Errorf("%s: %v, state %+v", test.name, err, st)
		}
	}
	var st stint.State
	if err := st.UnmarshalBinary(state(1<<52-1, 3, 2, 5, 1, 4, 2)); err != nil || st.T != 1<<52-1 || st.N != 3 || st.Log.Units() != 3 {
		t.Errorf("%v, state %+v", err, st)
	}
}
