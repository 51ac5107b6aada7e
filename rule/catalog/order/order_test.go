package order

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// all returns the numbers of an order.
func all(o *Order) (refs []uint32) {
	for p := (Place{}); o.At(p) != 0; p = o.Next(p) {
		refs = append(refs, o.At(p))
	}
	return refs
}

// After any series of changes an order has the same rules as a sorted slice, and its older copies have
// what they had. Numbers stand for IDs here.
func TestOrder(t *testing.T) {
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 1))
		var model []uint32
		for n := range uint32(1500) {
			model = append(model, 2*n+2)
		}
		o := New(model, 1)
		search := func(ref uint32) Place { return o.Search(func(other uint32) bool { return other < ref }) }
		for owner := uint64(2); owner < 40; owner++ {
			old, had := o, slices.Clone(model)
			for range 200 {
				ref := uint32(1 + random.IntN(4000))
				at, there := slices.BinarySearch(model, ref)
				p := search(ref)
				switch {
				case there != (o.At(p) == ref):
					t.Fatalf("seed %d: %d is there: %v, found %d", seed, ref, there, o.At(p))
				case there:
					o.Remove(p, owner)
					model = slices.Delete(slices.Clone(model), at, at+1)
				default:
					o.Insert(p, ref, owner)
					model = slices.Insert(slices.Clone(model), at, ref)
				}
			}
			if got := all(&o); !slices.Equal(got, model) {
				t.Fatalf("seed %d, change %d: %d rules, want %d", seed, owner, len(got), len(model))
			}
			if got := all(&old); !slices.Equal(got, had) {
				t.Fatalf("seed %d, change %d: the copy before has %d rules, want %d", seed, owner, len(got), len(had))
			}
		}
		slices.SortFunc(model, func(a, b uint32) int { return cmp.Compare(a%97, b%97) })
		for _, ref := range model {
			o.Remove(search(ref), 40)
		}
		if o.At(Place{}) != 0 || len(o.blocks) != 0 {
			t.Fatalf("seed %d: %d blocks are left", seed, len(o.blocks))
		}
	}
}
