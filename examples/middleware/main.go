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
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })

	store := memory.New(memory.Options{})
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Minute})
	handler := httplimit.Limit(store, limit, httplimit.Options{
		// Behind a proxy, say which one: only its forwarded header is believed.
		Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	})(hello)

	server := &http.Server{Addr: "127.0.0.1:8000", Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	log.Print("listening on http://", server.Addr)
	log.Fatal(server.ListenAndServe())
}
