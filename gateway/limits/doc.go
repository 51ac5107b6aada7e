// Package limits has Caddy's directives `stint_early` and `stint`, which limit the requests of a
// route by the rules of a domain.
//
//	stint_early api      # before authentication: by address, host, path
//	basic_auth { ... }
//	stint api            # behind it: by identity
//
// The elements of http.rate_limits with the action identity belong to stint, all others to
// stint_early. On a route without stint_early all belong to stint. Each directive makes one decision
// in one call of the store. If stint denies a request, what stint_early took is given back; if
// authentication denies it, that stays taken.
package limits
