package pace_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"stint"
	"stint/pace"
	"stint/store/memory"
)

// Ten requests per second, five of them at once. The client waits after a refusal of the server.
func ExampleNewTransport() {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()

	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Second, Burst: 5})
	client := &http.Client{
		Timeout:   30 * time.Second, // for waiting and sending together
		Transport: pace.NewTransport(memory.New(memory.Options{}), limit, pace.TransportOptions{MaxRetries: 1}),
	}
	defer client.CloseIdleConnections()

	begun := time.Now()
	answer, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	answer.Body.Close()
	fmt.Println(answer.StatusCode, "after at least a second:", time.Since(begun) >= time.Second)
	// Output: 200 after at least a second: true
}
