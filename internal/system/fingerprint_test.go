package system

import (
	"fmt"
	"math/bits"
	"testing"
)

// TestNoCollisions: a million typical keys of all lengths have a million fingerprints. Two 64-bit
// numbers of a million collide by chance once in 36 million runs.
func TestNoCollisions(t *testing.T) {
	seed := NewSeed()
	seen := make(map[uint64]string, 1<<20)
	add := func(key string) {
		h := seed.Sum(0, key)
		if other, ok := seen[h]; ok && other != key {
			t.Fatalf("%q and %q have the same fingerprint", key, other)
		}
		seen[h] = key
	}
	for i := range 250_000 {
		add(fmt.Sprintf("user=%d", i))
		add(fmt.Sprintf("api/user=%d/path=/v1/orders", i))
		add(fmt.Sprintf("%08d", i))
		add(string([]byte{byte(i), byte(i >> 8), byte(i >> 16)}))
	}
	for n := range 300 {
		add(string(make([]byte, n)))
	}
}

// TestSpread: flipping any one bit of a key flips each bit of the fingerprint about
// half of the time.
func TestSpread(t *testing.T) {
	seed := NewSeed()
	for _, n := range []int{1, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 100} {
		flips, tries := 0, 0
		for round := range 64 {
			key := make([]byte, n)
			for i := range key {
				key[i] = byte(round*31 + i*7)
			}
			before := seed.Sum(0, string(key))
			for bit := range 8 * n {
				key[bit/8] ^= 1 << (bit % 8)
				flips += bits.OnesCount64(before ^ seed.Sum(0, string(key)))
				tries++
				key[bit/8] ^= 1 << (bit % 8)
			}
		}
		if mean := float64(flips) / float64(tries); mean < 31 || mean > 33 {
			t.Errorf("%d bytes: %.2f bits flip, want about 32", n, mean)
		}
	}
}

func TestSpacesAndSeedsAreApart(t *testing.T) {
	a, b := NewSeed(), NewSeed()
	if a.Sum(0, "key") == a.Sum(1, "key") || a.Sum(0, "") == a.Sum(1, "") {
		t.Error("two spaces share a fingerprint")
	}
	if a.Sum(0, "key") == b.Sum(0, "key") {
		t.Error("two seeds share a fingerprint")
	}
}

func BenchmarkSum(b *testing.B) {
	seed := NewSeed()
	for _, key := range []string{"user=42", "api/user=123456/path=/v1/orders"} {
		b.Run(fmt.Sprint(len(key)), func(b *testing.B) {
			for b.Loop() {
				seed.Sum(1, key)
			}
		})
	}
}
