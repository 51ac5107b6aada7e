// Command stint-gateway is Caddy with Stint's modules built in. Its commands (run, validate, reload,
// fmt, adapt, ...) are Caddy's own.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	// The modules register themselves with Caddy.
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "stint/gateway"
)

func main() { caddycmd.Main() }
