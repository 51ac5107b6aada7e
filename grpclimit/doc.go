// Package grpclimit limits the calls of a gRPC server, and those of a gRPC client.
//
// One limit for each client of a server, without a rule file, takes four lines:
//
//	limit := stint.MustLimit(stint.Spec{Requests: 100, Per: time.Minute})
//	limits := grpclimit.Limit(memory.New(memory.Options{}), limit, grpclimit.Options{})
//	server := grpc.NewServer(
//	grpc.ChainUnaryInterceptor(limits.Unary), grpc.ChainStreamInterceptor(limits.Stream))
//
// [New] does the same with the rules of a domain. For its http.rate_limits, a call is a POST to the
// path /package.Service/Method with its metadata as headers. [NewClient] limits a client, which
// waits when its server requests it.
//
// # Answers
//
// An allowed call continues, and the headers of the presets are sent as metadata with its first
// message. A denied call ends with RESOURCE_EXHAUSTED, a google.rpc.RetryInfo with the time to wait
// (none if waiting never helps), and the same metadata as trailers. Such an answer has trailers
// only, so that a retry policy in the caller's service config works: grpc-retry-pushback-ms sets
// the time of the retry or, for times above [MaxPushback], forbids it.
//
// If a limit delays a call (leaky_bucket), the interceptor waits first. If the caller disconnects
// meanwhile, the units are given back; if the caller's deadline is too early, the call is refused
// immediately.
//
// Rules that count responses (count: responses) charge a call by its final code, a stream at its
// end; docs/grpc.md has the HTTP status for each code.
//
// # Clients
//
// The client is the peer of the connection. Behind a proxy that is the proxy, so all clients would
// share its bucket: list the proxies in Options.Trusted. Forwarded metadata from other peers is
// ignored, because any client can set it. IPv6 clients are distinguished by their /64.
//
// Calls that lack an attribute of a rule never share a bucket: the rule does not apply to them. For
// a limit without rules, Options.OnMissing decides.
//
// Interceptors can be chained, but each decides independently: if the inner one denies a call, the
// outer one has charged it already, and both add their metadata. Rules of one domain are decided
// together.
package grpclimit
