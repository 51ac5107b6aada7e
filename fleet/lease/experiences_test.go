package lease

import (
	"testing"
	"time"
)

// A node remembers what it learned about a key until it learned about another one in the same place.
func TestExperiences(t *testing.T) {
	x, bad := new(experiences), experience{strictFor: time.Minute, savings: 1}
	worse := experience{strictFor: time.Hour, savings: 1}
	check := func(when string, fp uint64, want experience) {
		t.Helper()
		if got := x.of(fp); got != want {
			t.Errorf("%s: %+v, want %+v", when, got, want)
		}
	}
	check("nothing is known", 1, noExperience)
	x.keep(1, bad)
	check("of this key", 1, bad)
	check("of another one in its place", 2, noExperience)
	x.keep(2, noExperience)
	check("nothing was learned about the other one", 1, bad)
	x.keep(2, worse)
	check("the other one replaced it", 1, noExperience)
	check("the other one", 2, worse)
	x.keep(1<<63, bad)
	check("a key in another place replaces nothing", 2, worse)
	x.forget()
	check("after a change of the limits", 2, noExperience)
}
