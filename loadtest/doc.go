// Package loadtest sends requests to a service, measures how long the answers take, and checks whether more passed than a
// limit allows.
//
// A [Plan] with a rate is an open loop: calls start at planned times, whether or not earlier ones were answered, and a
// time counts from the planned start. A plan without a rate is a closed loop: each worker waits for its answer before the
// next call. A closed loop sends less while the service is slow, so it leaves out the calls that would have waited
// (coordinated omission); its times are therefore also reported as corrected for that.
//
// The targets are [NewCheck] (POST /v1/check), [NewRLS] (Envoy's rate limit service), [NewThrottle] and
// [NewRuleCheck] (RESP: CL.THROTTLE and STINT.CHECK) and [NewPlain] (any HTTP server).
//
// [Excess] is the check by itself, for the calls of any program. A [Fleet] calls several nodes at once; it counts what
// passed at the callers, and does not rely on the counts of nodes.
package loadtest
