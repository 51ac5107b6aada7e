// Package httpapi implements Stint's own protocol: JSON over HTTP.
//
// [Traffic] handles POST /v1/check and GET /v1/auth of the traffic listener without a network and
// without net/http: it takes a [Request] and fills a [Response]. A check does not allocate.
// [Traffic.Handler] serves it with net/http.
//
// [NewAdmin] returns the handler of the admin listener, for operators and monitoring: the current
// rules, inspect and reset of a key, health, metrics, profiles.
//
// docs/openapi.yaml describes all endpoints of both. Errors have the form
//
//	{"error": {"code": "bad_request", "message": "...", "context": {"field": "descriptors[0].cost"}}}
//
// The message has the problem, its place, and how to correct it; code is for programs.
package httpapi
