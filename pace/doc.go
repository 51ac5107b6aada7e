// Package pace keeps a caller under a limit: it waits, reserves, or takes what there
// is, where a server would refuse.
//
//	store := memory.New(memory.Options{})
//	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Second})
//	p := pace.New(store, "mail", limit)
//	for _, m := range mails {
//		if err := p.Wait(ctx, 1); err != nil {
//			return err
//		}
//		send(m)
//	}
//
// A [Pacer] works over any [stint.Store]: with a shared store, callers in several
// processes keep one limit together. It runs no goroutine.
//
// A [Filter] sorts items into those that may pass and those that may not; a [Queue]
// keeps what is over and releases it as the limit allows, to a function or through a
// channel. Package pace/pacehttp is the same for the requests of an HTTP client.
package pace
