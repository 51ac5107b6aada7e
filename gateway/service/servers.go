package service

import (
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"stint/httplimit"
)

// servers are the servers of a configuration whose requests may wait in lines.
type servers struct {
	mu   sync.Mutex
	seen map[*caddyhttp.Server]bool
}

// AddServer lets requests of a server wait in lines. Handlers call it when they are provisioned; a second
// call does nothing. Requests that wait then see at once when their client disconnects, and get 503 when the
// process ends. Over a reload they keep waiting.
func (a *App) AddServer(s *caddyhttp.Server) {
	a.servers.mu.Lock()
	defer a.servers.mu.Unlock()
	if a.servers.seen[s] {
		return
	}
	if a.servers.seen == nil {
		a.servers.seen = map[*caddyhttp.Server]bool{}
	}
	a.servers.seen[s] = true
	s.RegisterConnContext(httplimit.ConnContext)
	s.RegisterOnShutdown(a.drain)
}

// drain refuses the requests that wait if the process ends. It is called when a server shuts down.
func (a *App) drain() {
	if !caddy.Exiting() {
		return
	}
	if running, err := a.Service(); err == nil {
		running.Limiter().Lines().Drain()
	}
}
