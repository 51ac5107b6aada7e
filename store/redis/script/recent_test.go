package script

import (
	"fmt"
	"testing"
	"time"
)

func TestRecent(t *testing.T) {
	r := NewRecent()
	for _, start := range []time.Duration{0, 65_534 * time.Second, 400 * 24 * time.Hour} { // the second has 16 bits
		at := start + time.Second/2
		if r.Has("a", at) && start > 0 {
			t.Errorf("%v: a is remembered from the last time", start)
		}
		r.Mark("a", at)
		for _, test := range []struct {
			key  string
			at   time.Duration
			want bool
		}{
			{"a", at, true},
			{"a", at + 5*time.Second, true},
			{"a", at + 6*time.Second, false},
			{"b", at, false},
		} {
			if r.Has(test.key, test.at) != test.want {
				t.Errorf("%v: %s is remembered %v later: %v", start, test.key, test.at-at, !test.want)
			}
		}
	}
	for i := range 1 << 16 { // keys replace each other
		r.Mark(fmt.Sprint(i), time.Minute)
	}
	if r.Has("a", time.Minute) {
		t.Error("a is remembered for ever")
	}
}
