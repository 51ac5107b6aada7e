// Package httplimit limits the requests of a net/http server.
//
// One limit for each client, without any file, is three lines:
//
//	store := memory.New(memory.Options{})
//	limit := stint.MustLimit(stint.Spec{Requests: 100, Per: time.Minute})
//	handler = httplimit.Limit(store, limit, httplimit.Options{})(handler)
//
// [New] does the same by the rules of a domain, whose http.rate_limits say how a
// request becomes descriptors.
//
// A request that may pass goes on to the handler with the very ResponseWriter it
// came with, so hijacking, flushing and HTTP/2 push work as without; only headers
// have been set. One that may not is answered here: 429, Retry-After, the headers
// of the presets, and a body that says how long to wait, or what its rule wants to
// be answered. A limit that delays (leaky_bucket) holds the request first; a client
// that goes away meanwhile gives its place back.
//
// Where a rule counts answers (count: responses) the handler gets a ResponseWriter
// that sees the status and can do what the server's can. What the request took is
// kept or given back just before its header is sent; a handler that panics before
// that counts as 500, and one that hijacks the connection as 101. The headers with
// numbers are those of before.
//
// On an HTTP/1 wire the RateLimit fields are spelled as their specifications write
// them, so they stand like that in the map too: read them there by index, such as
// w.Header()["X-RateLimit-Remaining"], not by Header.Get. A client's net/http finds
// them by any spelling.
//
// # Who is asking
//
// The client is the peer of the connection. Behind proxies that is the proxy, and
// everybody shares its bucket: list them in Options.Trusted. Forwarded headers from
// anyone else are never read, because any client can write them. IPv6 clients are
// told apart by their /64.
//
// Rules that know devices by a cookie (device: {cookie: ...}) have it set here, on the
// answers to requests that pass. Those that verify tokens by keys from an address
// need somebody who fetches them: rulefile.NewKeySets does, from its Use to its Close.
//
// A request without the attribute that a rule asks for (no such header, no
// address) is never put into a bucket that all such requests share: the rule is
// not asked. For a limit without rules, Options.OnMissing says what happens.
//
// # Several limits
//
// Middlewares can be stacked, but each decides alone: the outer one has charged the
// request when the inner one denies it, and the inner one's headers replace the
// outer one's. Rules of one domain are decided as one.
package httplimit
