package service

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"stint/gateway/queue/route"
	"stint/rule"
	"stint/rule/denial"
)

// warnQueue warns of limits with `excess: queue` without a queue, and of a queue that loses the names of
// clients.
func (a *App) warnQueue() {
	log := a.ctx.Slogger()
	for _, site := range a.sites.All() {
		r := a.queueing(site.Domain)
		switch {
		case r == nil:
		case a.Queue == nil:
			log.Warn("there is no queue: limits with excess: queue deny", "file", r.File, "line", r.Line, "hint", "add queue FILE, or queue redis://HOST:PORT, to the block stint")
			return
		case a.Queue.IdentityKeyFile == "" && a.identifies(&site):
			log.Warn("queued requests reach the upstream without the name of their client", "queue", a.Queue.Place, "domain", site.Domain,
				"hint", "add queue_identity_key_file FILE to the block stint, for a signed Stint-Identity")
			return
		}
	}
}

// queueing returns a rule of a domain with `excess: queue`; nil if there is none.
func (a *App) queueing(domain string) *rule.Rule {
	for _, r := range a.table.All() {
		if r.Domain == domain && r.Excess != nil && r.Excess.Mode == denial.Queue {
			return r
		}
	}
	return nil
}

// identifies reports whether requests that a handler queues may have an identity that the upstream does not
// get: the handler stands behind authentication, and not behind stint_identity, whose header is stored.
func (a *App) identifies(site *route.Site) bool {
	behind := func(is func(id caddy.ModuleID) bool) bool {
		return route.Precedes(site.Server, site.Handler, func(h caddyhttp.MiddlewareHandler) bool {
			module, ok := h.(caddy.Module)
			return ok && is(module.CaddyModule().ID)
		})
	}
	if behind(func(id caddy.ModuleID) bool { return id == "http.handlers.stint_identity" }) {
		return false
	}
	return a.table.Domain(site.Domain).ReadsIdentity() || behind(func(id caddy.ModuleID) bool { return id == "http.handlers.authentication" })
}
