// Command middleware limits a net/http server: each client to 100 requests a minute.
package main

import (
	"fmt"
	"log"
	"net/http"
	"net/netip"
	"time"

	"stint"
	"stint/httplimit"
	"stint/store/memory"
)

func main() {
	server := &http.Server{
		Addr:              "127.0.0.1:8000",
		Handler:           limited(memory.New(memory.Options{})),
		ReadHeaderTimeout: 5 * time.Second,
	}
	log.Print("listening on http://", server.Addr)
	log.Fatal(server.ListenAndServe())
}

// limited returns a limited handler with its counts in store.
func limited(store stint.Store) http.Handler {
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })

	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Minute})
	return httplimit.Limit(store, limit, httplimit.Options{
		// Behind a proxy, set its address: only its forwarded header is used.
		Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	})(hello)
}
