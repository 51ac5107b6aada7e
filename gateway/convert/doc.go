// Package convert turns a Caddyfile that uses the module caddy-ratelimit into a Caddyfile and rule files
// of Stint that give the same verdicts.
//
// Each zone becomes a sliding_log with the same key, window and number of events. Zones with the same
// condition become one domain, so that they are decided together. A zone with `match` gets a named
// matcher with the same lines, and its own domain. All other lines of the Caddyfile stay as they are.
//
// Convert either converts everything or returns [Faults]: what it cannot convert, with its line and a
// hint. The page docs/coming-from-caddy-ratelimit.md lists where verdicts differ on purpose.
package convert
