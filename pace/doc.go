// Package pace limits a caller on its own side: instead of being refused by a server, the caller
// waits, reserves units, or takes what is available.
//
//	store := memory.New(memory.Options{})
//	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Second})
//	p := pace.New(store, "mail", limit)
//	for _, m := range mails {
//	if err := p.Wait(ctx, 1); err != nil {
//	return err
//	}
//	send(m)
//	}
//
// A [Pacer] works with any [stint.Store]: with a shared store, callers in several processes share
// one limit. It starts no goroutine.
//
// A [Filter] divides items into those that may pass and those that may not. A [Queue] stores items
// above the limit and releases them as the limit allows, to a function or through a channel.
//
// A [Transport] limits an HTTP client, by a limit of its own and by the limits of its servers:
//
//	client := &http.Client{
//		Transport: pace.NewTransport(store, limit, pace.TransportOptions{}),
//	}
//
// sends at most ten requests per second to each host, and none while a host refuses requests by
// Retry-After or its RateLimit fields.
package pace
