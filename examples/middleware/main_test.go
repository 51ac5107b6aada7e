package main

import (
	"fmt"
	"net/http/httptest"

	"stint"
	"stint/store/memory"
)

// A hundred pass at one instant, and the next one is told how long to wait. The same
// client on another connection, or one that makes up a forwarded header, is no other.
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
