package modes

import (
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/text"
)

// The times at which a key that counts as used up has three quarters of its units, and all of them, are those of the
// ledger.
func TestWholeAfterLoss(t *testing.T) {
	for _, spec := range []stint.Spec{
		{Algorithm: stint.TokenBucket, Requests: 10_000, Per: time.Second},
		{Algorithm: stint.TokenBucket, Requests: 100, Per: 3 * time.Second},
		{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Second, Burst: 480},
		{Algorithm: stint.TokenBucket, Requests: 600, Per: time.Minute},
	} {
		limit := stint.MustLimit(spec)
		began := stint.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
		var st stint.State
		limit.ForStores().Report(&st, began, &stint.Loan{}, stint.Epoch{Began: began, Lost: true})
		has := func(units int64) string {
			after := time.Duration(0)
			for d := limit.Test(&st, began, 0); d.Remaining < units && after < 2*time.Minute; d = limit.Test(&st, began.Add(after), 0) {
				after += time.Millisecond
			}
			return text.ShortDuration(after)
		}
		most := limit.Capacity()
		got := wholeAfterLoss(limit)
		if three, all := has(most-most/4), has(most); !strings.HasSuffix(got, "again after "+three+", and all after "+all) {
			t.Errorf("%+v: %s, but the ledger has three quarters after %s, and all after %s", spec, got, three, all)
		}
	}
}
