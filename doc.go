// Package stint decides whether a request may pass now.
//
// It contains the types and the arithmetic of rate limiting, and nothing else. A [Limit] defines
// how much may pass, a [State] is what a store keeps for one key, and every algorithm is a
// function of (state, now, cost). The package has no clock, lock, goroutine, log or metric; time
// is an argument.
//
//	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Minute})
//	var state stint.State
//	d := limit.Take(&state, stint.At(time.Now()), 1)
//	if !d.Allowed {
//		// try again after d.RetryAfter
//	}
//
// To limit many keys from many goroutines, use a [Store], which keeps the states. Package
// store/memory keeps them in this process.
//
// A denial is a value: a [Decision] with Allowed false. An error means that no decision could be
// made.
package stint
