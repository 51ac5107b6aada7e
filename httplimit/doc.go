// Package httplimit limits the requests of a net/http server.
//
// One limit for each client, without a rule file, takes three lines:
//
//	store := memory.New(memory.Options{})
//	limit := stint.MustLimit(stint.Spec{Requests: 100, Per: time.Minute})
//	handler = httplimit.Limit(store, limit, httplimit.Options{})(handler)
//
// [New] does the same with the rules of a domain, whose http.rate_limits define how a request
// becomes descriptors.
//
// An allowed request is passed to the handler with the server's ResponseWriter, so hijacking,
// flushing and HTTP/2 push work as usual; only headers have been set. A denied request is answered
// here: with 429, Retry-After, the headers of the presets, and a body with the time to wait, or
// with the denial of its rule. If a limit delays a request (leaky_bucket), the middleware waits
// first; if the client disconnects meanwhile, the units are given back.
//
// If a rule counts responses (count: responses), the handler gets a ResponseWriter that records the
// status and supports everything that the server's supports. The units of the request are charged
// or given back just before its header is sent. A handler that panics before that counts as 500,
// and one that hijacks the connection as 101. The headers with numbers show the state before.
//
// On an HTTP/1 connection the RateLimit fields are spelled as in their specifications. So they are
// in the header map with this spelling: read them by index, such as
// w.Header()["X-RateLimit-Remaining"], not with Header.Get. A client that uses net/http finds them
// in any spelling.
//
// # Clients
//
// The client is the peer of the connection. Behind a proxy that is the proxy, so all clients would
// share its bucket: list the proxies in Options.Trusted. Forwarded headers from other peers are
// ignored, because any client can set them. IPv6 clients are distinguished by their /64.
//
// Rules that identify devices by a cookie (device: {cookie: ...}) set it here, on the answers to
// allowed requests. Rules that verify tokens with keys from an address need a fetcher for the keys:
// rulefile.NewKeySets returns one; call its Use and finally its Close.
//
// Requests that lack an attribute of a rule (a header, an address) never share a bucket: the rule
// does not apply to them. For a limit without rules, Options.OnMissing decides.
//
// # Several limits
//
// Middlewares can be stacked, but each decides independently: if the inner one denies a request,
// the outer one has charged it already, and the headers of the inner one replace those of the outer
// one. Rules of one domain are decided together.
package httplimit
