// Package httpapi is Stint's own protocol: JSON over HTTP.
//
// [Traffic] answers POST /v1/check on the traffic listener. It knows no network
// and nothing of net/http: a [Request] goes in, a [Response] comes out, and
// nothing is allocated on the way. [Traffic.Handler] carries it on net/http.
//
// [NewAdmin] returns the handler of the admin listener, for people and monitoring:
// the table in force, inspect and reset of a key, health, metrics, profiles.
//
// docs/openapi.yaml describes every endpoint of both. Errors are an envelope,
//
//	{"error": {"code": "bad_request", "message": "...", "context": {"field": "descriptors[0].cost"}}}
//
// whose message says what is wrong, where, and what to do; code is for programs.
package httpapi
