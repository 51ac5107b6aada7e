// Command client keeps an HTTP client under its own limit, and under the limit of a server whose
// numbers it does not know.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"time"

	"stint"
	"stint/httplimit"
	"stint/pace"
	"stint/store/memory"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

// run sends eight requests from four goroutines to a server that allows five a second. The client
// learns the limit from the server's responses.
func run(ctx context.Context, out io.Writer) error {
	server := limitedServer()
	defer server.Close()

	own := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 50, Per: time.Second, Burst: 1})
	client := &http.Client{Transport: pace.NewTransport(memory.New(memory.Options{}), own, pace.TransportOptions{})}
	defer client.CloseIdleConnections()

	var mu sync.Mutex
	statuses := map[int]int{}
	var failed error
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 2 {
				status, err := get(ctx, client, server.URL)
				mu.Lock()
				statuses[status]++
				if err != nil {
					failed = err
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	fmt.Fprintf(out, "fetched: %d, refused by the server: %d\n", statuses[http.StatusOK], statuses[http.StatusTooManyRequests])
	return failed
}

// limitedServer allows five requests in any second and sends the numbers in its responses.
func limitedServer() *httptest.Server {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: 5, Per: time.Second})
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	return httptest.NewServer(httplimit.Limit(memory.New(memory.Options{}), limit, httplimit.Options{})(hello))
}

func get(ctx context.Context, client *http.Client, url string) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	answer, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}
