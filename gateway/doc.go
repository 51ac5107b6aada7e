// Package gateway builds Stint into Caddy: its directives limit, identify and queue the requests of
// any Caddy site. Command stint-gateway is Caddy with these modules built in; xcaddy builds them into
// a Caddy of your own.
//
// Package gateway/service is the app `stint`, which has the rules and the store; other modules reach
// the running service through service.Running. Package gateway/limits has the directives
// `stint_early` and `stint`. Package gateway/lists has `stint_only` and `stint_deny`, gateway/auth the
// authentication and `stint_identity`, gateway/permission the module tls.permission.stint. Package
// gateway/internal/placement refuses directives at places where they could not do their work. Package
// gateway/convert is the command `convert`, for Caddyfiles of caddy-ratelimit.
package gateway

import (
	// The modules register themselves with Caddy.
	_ "stint/gateway/auth"
	_ "stint/gateway/convert"
	_ "stint/gateway/limits"
	_ "stint/gateway/lists"
	_ "stint/gateway/permission"
	_ "stint/gateway/service"
)
