// Package pacehttp keeps an HTTP client under a limit, and under those of its servers.
//
//	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Second})
//	client := &http.Client{
//		Transport: pacehttp.NewTransport(memory.New(memory.Options{}), limit, pacehttp.Options{}),
//	}
//
// sends at most ten requests a second to each host, and none while a host has said by
// Retry-After or its RateLimit fields that it takes none. See [Transport].
package pacehttp
