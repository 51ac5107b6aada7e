package stint_test

import (
	"fmt"
	"time"

	"stint"
)

// noon stands for the present, so that the examples print the same each day.
var noon = stint.At(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))

func ExampleLimit_Take() {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 2, Per: time.Second})
	var state stint.State
	for range 3 {
		d := limit.Take(&state, noon, 1)
		fmt.Println(d.Allowed, d.Remaining, d.RetryAfter)
	}
	// Output:
	// true 1 0s
	// true 0 0s
	// false 0 500ms
}

// A leaky bucket returns how long to delay an allowed request.
func ExampleLimit_Take_delay() {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.LeakyBucket, Requests: 10, Per: time.Second, Burst: 2})
	var state stint.State
	for range 4 {
		d := limit.Take(&state, noon, 1)
		fmt.Println(d.Allowed, d.Delay, d.RetryAfter)
	}
	// Output:
	// true 0s 0s
	// true 100ms 0s
	// true 200ms 0s
	// false 0s 100ms
}

// A cost of 0 looks without taking.
func ExampleLimit_TakeAtMost() {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: 5, Per: time.Hour})
	var state stint.State
	now := stint.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	for range 3 {
		d := limit.TakeAtMost(&state, now, 3)
		fmt.Println(d.Allowed, d.Charged, d.RetryAfter)
	}
	// Output:
	// true 3 0s
	// true 2 0s
	// false 0 1h0m0s
}

func ExampleLimit_Test() {
	limit := stint.MustLimit(stint.Spec{Requests: 100, Per: time.Minute})
	var state stint.State
	limit.Take(&state, noon, 30)
	fmt.Println(limit.Test(&state, noon, 71).Allowed)
	fmt.Println(limit.Test(&state, noon, 0).Remaining)
	// Output:
	// false
	// 70
}

// A cost known only afterwards is debited in full and waited for.
func ExampleLimit_Force() {
	tokens := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 600, Per: time.Minute, Burst: 100})
	var state stint.State
	tokens.Force(&state, noon, 150)
	d := tokens.Take(&state, noon, 1)
	fmt.Println(d.Allowed, d.Remaining, d.RetryAfter)
	// Output: false 0 5.1s
}

func ExampleLimit_Refund() {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: 5, Per: time.Minute})
	var state stint.State
	took := limit.Take(&state, noon, 3)
	fmt.Println(took.Remaining)
	fmt.Println(limit.Refund(&state, noon.Add(time.Second), 3, &took).Remaining)
	// Output:
	// 2
	// 5
}

// A key keeps what it used when the numbers of its limit change.
func ExampleStoreLimit_Migrate() {
	old := stint.MustLimit(stint.Spec{Requests: 10, Per: time.Minute})
	raised := stint.MustLimit(stint.Spec{Requests: 1000, Per: time.Minute})
	var state stint.State
	old.Take(&state, noon, 10)
	raised.ForStores().Migrate(&state, old, noon)
	fmt.Println(raised.Take(&state, noon, 1).Remaining)
	// Output: 989
}

func ExampleStoreLimit_TakeWord() {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 2, Per: time.Second})
	var word uint64 // an untouched key
	var d stint.Decision
	word = limit.ForStores().TakeWord(word, noon, 2, &d)
	limit.ForStores().TakeWord(word, noon, 1, &d)
	fmt.Println(limit.ForStores().Packed(), d.Allowed, d.RetryAfter)
	// Output: true false 500ms
}

func ExampleNewLimit() {
	_, err := stint.NewLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: 365 * 24 * time.Hour, Burst: 1000})
	fmt.Println(err)
	// Output: burst: 1000 at 1 per 8760h0m0s takes more than 50 years to refill
}

// Several limits are decided as one; the decision is that of the limit that denies for the longest
// time.
func ExampleCombine() {
	perSecond := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: time.Second})
	perDay := stint.MustLimit(stint.Spec{Requests: 1, Calendar: stint.Day})
	var second, day stint.State
	perSecond.Take(&second, noon, 1)
	perDay.Take(&day, noon, 1)
	d, which := stint.Combine([]stint.Decision{perSecond.Test(&second, noon, 1), perDay.Test(&day, noon, 1)})
	fmt.Println(which, d.RetryAfter)
	// Output: 1 12h0m0s
}

func ExampleParseAlgorithm() {
	a, err := stint.ParseAlgorithm("sliding_window")
	fmt.Println(a, err)
	// Output: sliding_window <nil>
}

func ExampleState_AppendBinary() {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: 5, Per: time.Minute})
	var state, read stint.State
	limit.Take(&state, noon, 2)
	b, _ := state.AppendBinary(nil)
	fmt.Println(read.UnmarshalBinary(b), limit.Test(&read, noon, 0).Remaining)
	// Output: <nil> 3
}
