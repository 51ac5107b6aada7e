// Package pacehttp limits an HTTP client, by a limit of its own and by the limits of its servers.
//
//	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Second})
//	client := &http.Client{
//	Transport: pacehttp.NewTransport(memory.New(memory.Options{}), limit, pacehttp.Options{}),
//	}
//
// sends at most ten requests per second to each host, and none while a host refuses requests by
// Retry-After or its RateLimit fields. See [Transport].
package pacehttp
