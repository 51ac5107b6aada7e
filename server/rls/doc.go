// Package rls implements Envoy's rate limit service, envoy.service.ratelimit.v3.RateLimitService,
// without a network.
//
// [Handler.Decide] takes an encoded RateLimitRequest and returns an encoded RateLimitResponse. It
// does not allocate. [Handler.JSON] offers the same in JSON over HTTP.
//
// A rule file of envoyproxy/ratelimit gives the same answers as there, except for the differences
// listed in docs/rls.md: a denied take is not counted, and a call is all or none unless its domain
// has `atomic: false`.
package rls
