package testkit

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

// How much a decoder of network input may allocate: bytes for each byte of input, and at least a
// number of bytes for small inputs.
const (
	PerByte = 8
	AtLeast = 32 << 10
)

// Frugal checks how much memory a decoder of untrusted input takes. It decodes each seed, and
// inputs of up to a megabyte made from it: a piece of it repeated many times, cut off, and changed.
// Each call of decode must start without memory of earlier calls. It may change the input.
//
// Tests of decoders are named TestDecodersAreFrugal, and internal/repository checks that all of
// them exist.
func Frugal(t *testing.T, seeds [][]byte, decode func(input []byte)) {
	t.Helper()
	if Race { // it allocates too
		return
	}
	measure := func(input []byte) {
		most := uint64(max(AtLeast, PerByte*len(input)))
		took := allocated(input, decode)
		// Without what is made once for all, and what others in the process allocate meanwhile.
		for again := 0; took > most && again < 10; again++ {
			time.Sleep(time.Duration(again) * time.Millisecond) // until they are done
			took = allocated(input, decode)
		}
		if took > most {
			t.Fatalf("%d bytes of input took %d bytes of memory, %.1f for each; at most %d in all, or %d for each:\n%.300q",
				len(input), took, float64(took)/float64(len(input)), AtLeast, PerByte, input)
		}
	}
	budget := 64 << 20 // total size of the inputs made from seeds
	if testing.Short() {
		budget = 4 << 20
	}
	for _, seed := range seeds {
		measure(seed)
	}
	r := rand.New(rand.NewPCG(uint64(len(seeds)), 1))
	sizes := []int{1 << 10, 4 << 10, 5 << 10, 9 << 10, 70 << 10, 1 << 20}
	for i := 0; budget > 0; i++ {
		input := variant(r, seeds[r.IntN(len(seeds))], sizes[r.IntN(len(sizes)-(i&1))])
		measure(input)
		budget -= len(input) + 4<<10
	}
}

// allocated returns how many bytes decoding an input allocates.
func allocated(input []byte, decode func([]byte)) uint64 {
	own := bytes.Clone(input)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	decode(own)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// variant makes an input of about a size from a seed.
func variant(r *rand.Rand, seed []byte, size int) []byte {
	if len(seed) == 0 {
		return nil
	}
	from := r.IntN(len(seed))
	to := min(len(seed), from+1+r.IntN(min(len(seed), 40)))
	times := max(1, (size-len(seed))/(to-from))
	out := bytes.Clone(seed[:to])
	out = append(out, bytes.Repeat(seed[from:to], times)...)
	switch r.IntN(3) {
	case 0: // the rest of the seed, so that the input may be well formed
		out = append(out, seed[to:]...)
	case 1:
		for range 1 + r.IntN(3) {
			out[r.IntN(len(out))] = byte(r.IntN(256))
		}
	}
	return out
}
