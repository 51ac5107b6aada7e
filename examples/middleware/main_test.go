package main

import (
	"fmt"
	"net/http/httptest"

	"stint"
	"stint/store/memory"
)

// A hundred requests pass at one instant, and the next is denied with a time to wait. The same
// client on another connection, or with a made up forwarded header, has the same limit.
func Example() {
	const now = stint.Instant(1767225600_000_000) // 2026-01-01
	server := limited(memory.New(memory.Options{Clock: func() stint.Instant { return now }}))
	statuses := map[int]int{}
	for range 100 {
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, httptest.NewRequest("GET", "/", nil))
		statuses[answer.Code]++
	}
	fmt.Println(statuses)

	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Forwarded-For", "203.0.113.9")
	answer := httptest.NewRecorder()
	server.ServeHTTP(answer, r)
	fmt.Println(answer.Code, "again after", answer.Header().Get("Retry-After"), "s")
	// Output:
	// map[200:100]
	// 429 again after 1 s
}
