package limits

import (
	"testing"
	"time"

	"stint"
)

func TestFormat(t *testing.T) {
	for _, test := range []struct {
		spec stint.Spec
		want string
	}{
		{stint.Spec{Requests: 5, Per: 24 * time.Hour}, "fixed_window 5 per 1d"},
		{stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Second, Burst: 9, Step: true}, "token_bucket 5 per 1s burst 9 in steps"},
		{stint.Spec{Algorithm: stint.Unlimited}, "unlimited"},
	} {
		if got := Format(stint.MustLimit(test.spec)); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}
