package servers_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"stint"
	"stint/chain/servers"
	"stint/store/memory"
)

// TestPick: servers have equal parts, and one that joins takes over its part of the keys and moves
// no other.
func TestPick(t *testing.T) {
	const keys = 100_000
	for _, key := range []string{"stint/user=%d", "%d", "api/ip=10.0.%d.7", "%08d\x00"} {
		four := append(slices.Clone(names), "d:6379")
		counts, moved := make([]int, len(names)), 0
		for i := range keys {
			place := stint.Key(fmt.Sprintf(key, i))
			before, after := servers.Pick(names, place), servers.Pick(four, place)
			counts[before]++
			switch after {
			case before:
			case len(names):
				moved++
			default:
				t.Fatalf("%q moves from %d to %d", place, before, after)
			}
		}
		if share := 100 * float64(moved) / keys; math.Abs(share-25) > 3 {
			t.Errorf("%s: %.1f %% of the keys move to a fourth server", key, share)
		}
		for i, n := range counts {
			if share := 100 * float64(n) / keys; math.Abs(share-100.0/3) > 1 {
				t.Errorf("%s: server %d has %.1f %% of the keys", key, i, share)
			}
		}
	}
	if n := servers.Pick(nil, "a"); n != -1 {
		t.Errorf("of no servers number %d", n)
	}
}

// TestPlaces: a key lies on the server of Pick, the same in every release, whatever the order of
// the servers; and Handling.Place replaces the key.
func TestPlaces(t *testing.T) {
	for place, name := range map[stint.Key]string{"stint": "a:6379", "api/user=42": "c:6379", "": "a:6379", "\xff": "c:6379"} {
		for _, order := range [][]string{names, {names[2], names[0], names[1]}} {
			if got := order[servers.Pick(order, place)]; got != name {
				t.Errorf("%q lies on %s, and did on %s", place, got, name)
			}
		}
	}
	for _, order := range [][]int{{0, 1, 2}, {2, 0, 1}} {
		stores := map[string]*memory.Store{}
		var list []servers.Server
		for _, i := range order {
			stores[names[i]] = memory.New(memory.Options{Budget: 1 << 20})
			list = append(list, servers.Server{Name: names[i], Store: stores[names[i]]})
		}
		s, err := servers.New(list)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			key, place := stint.Key(fmt.Sprint("key", i)), stint.Key("")
			if i%2 == 0 {
				place = "all"
			}
			call := stint.Call{At: noon, Takes: []stint.Take{{Key: key, Handling: &stint.Handling{Place: place}, Limit: hour, Cost: 3}}}
			if err := s.Decide(t.Context(), &call); err != nil {
				t.Fatal(err)
			}
			if place == "" {
				place = key
			}
			if got := left(t, stores[names[servers.Pick(names, place)]], key); got != 7 {
				t.Errorf("%s with place %q: %d left where it belongs", key, place, got)
			}
		}
	}
}

// TestNew: New refuses invalid servers.
func TestNew(t *testing.T) {
	store := memory.New(memory.Options{Budget: 1 << 20})
	for _, list := range [][]servers.Server{
		nil,
		{{Name: "a", Store: store}, {Name: "b", Store: store}, {Name: "a", Store: store}},
		{{Store: store}},
		{{Name: "a"}},
	} {
		_, err := servers.New(list)
		if problem, ok := errors.AsType[*servers.ConfigError](err); !ok || problem.Hint == "" {
			t.Errorf("%v: %v", list, err)
		}
	}
}
