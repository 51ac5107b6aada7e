// Package rls is Envoy's rate limit service: envoy.service.ratelimit.v3.RateLimitService.
//
// [Handler] knows no network and nothing of gRPC: the bytes of a RateLimitRequest go
// in, those of a RateLimitResponse come out, and nothing is allocated on the way.
// [Handler.JSON] answers the same in JSON over HTTP.
//
// A file of envoyproxy/ratelimit is answered as that answers it, but for what
// docs/rls.md lists: a denied take is not counted, and a call is all or none unless its
// domain says `atomic: false`.
package rls
