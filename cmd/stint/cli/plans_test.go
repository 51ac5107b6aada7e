package cli

import (
	"strings"
	"testing"
)

// A plan that is too large is refused: a part of it would have other limits.
func TestLargePlan(t *testing.T) {
	const plan = "calls: {requests: 100, per: 1d}\n"
	for _, tt := range []struct {
		size int
		want string
	}{
		{maxPlan, ""},
		{maxPlan + 1, "cannot read the plan: it has more than 262144 bytes"},
	} {
		in := strings.NewReader(plan + strings.Repeat("\n", tt.size-len(plan)))
		got := ""
		if _, err := readLimits(Streams{In: in}, "-"); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%d bytes: error %q, want %q", tt.size, got, tt.want)
		}
	}
}
