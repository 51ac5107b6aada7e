// Package grpclimit limits the calls of a gRPC server, and those of a client.
//
// One limit for each client of a server, without any file, is four lines:
//
//	limit := stint.MustLimit(stint.Spec{Requests: 100, Per: time.Minute})
//	limits := grpclimit.Limit(memory.New(memory.Options{}), limit, grpclimit.Options{})
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(limits.Unary), grpc.ChainStreamInterceptor(limits.Stream))
//
// [New] does the same by the rules of a domain: a call is to its http.rate_limits
// what a POST to the path /package.Service/Method is, with its metadata as headers.
// [NewClient] keeps a client under a limit and lets it wait where its server tells
// it to.
//
// # What a caller sees
//
// A call that may pass goes on, and the headers of the presets go out as metadata
// with its first message. One that may not ends with RESOURCE_EXHAUSTED, a
// google.rpc.RetryInfo that says how long to wait (none where waiting never helps),
// and the same metadata as trailers. Such an answer has trailers only, so that a
// retry policy in the caller's service config works: grpc-retry-pushback-ms tells
// it when to come back, or, for waits above [MaxPushback], not to.
//
// A limit that delays (leaky_bucket) holds the call first; a caller that goes away
// meanwhile gives its place back, and one whose deadline is too near is refused at
// once.
//
// Rules that count answers (count: responses) charge a call by the code that it ends
// with, a stream at its end; docs/grpc.md has the status of HTTP for each code.
//
// # Who is asking
//
// The client is the peer of the connection. Behind proxies that is the proxy, and
// everybody shares its bucket: list them in Options.Trusted. Forwarded metadata
// from anyone else is never read, because any client can write it. IPv6 clients are
// told apart by their /64.
//
// A call without the attribute that a rule asks for is never put into a bucket that
// all such calls share: the rule is not asked. For a limit without rules,
// Options.OnMissing says what happens.
//
// Interceptors can be chained, but each decides alone: the outer one has charged
// the call when the inner one denies it, and both add their metadata. Rules of one
// domain are decided as one.
package grpclimit
