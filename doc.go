// Package stint decides whether a request may pass now.
//
// It is the vocabulary and the arithmetic of rate limiting, and nothing else: a
// [Limit] says how much may pass, a [State] is what is remembered of one key, and
// every algorithm is a function of (state, now, cost). There is no clock, lock,
// goroutine, log or metric in this package; time is an argument.
//
//	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Minute})
//	var state stint.State
//	d := limit.Take(&state, stint.At(time.Now()), 1)
//	if !d.Allowed {
//		// try again after d.RetryAfter
//	}
//
// Whoever limits many keys from many goroutines wants a [Store], which keeps the
// states: package store/memory holds them in this process.
//
// A refusal is a value, a [Decision] with Allowed false. An error means that no
// decision could be made.
package stint
