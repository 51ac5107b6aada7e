package rule

import (
	"testing"
	"time"

	"stint"
)

// Copies of rules are bounded, whatever numbers overrides have, and one is made once.
func TestVariants(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Requests: 1, Per: time.Hour})
	r := &Rule{Domain: "api", Name: "users", Limit: limit, Stored: limit}
	var v Variants
	for n := range uint32(2*maxVariants + 10) {
		if made := v.With(r, Numbers{Requests: n + 1}, nil); made.Limit.Spec().Requests != n+1 {
			t.Fatalf("%+v", made.Limit.Spec())
		}
	}
	if len(v.rules) > maxVariants {
		t.Errorf("%d copies, at most %d", len(v.rules), maxVariants)
	}
	if a, b := v.With(r, Numbers{Requests: 7}, nil), v.With(r, Numbers{Requests: 7}, nil); a != b {
		t.Error("a copy is made for each request")
	}
}
