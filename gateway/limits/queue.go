package limits

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"stint/gateway/internal/client"
	"stint/gateway/queue"
	"stint/gateway/queue/route"
	"stint/httplimit"
	"stint/rule"
)

// earlyName is the name of the directive of Early.
const earlyName = "stint_early"

// addSite makes the handler known to the queue, which sends the requests that it queued to what is behind
// it, and lets the requests of its server wait.
func (h *Handler) addSite(server *caddyhttp.Server, self caddyhttp.MiddlewareHandler, c *client.Finder, phase rule.Phase) {
	h.client, h.site = c, route.Site{Domain: h.Domain, Name: "stint", Server: server, Handler: self}
	if phase == httplimit.Early {
		h.site.Name = earlyName
	}
	if server != nil {
		h.app.AddSite(h.site)
		h.app.AddServer(server)
	}
}

// openQueue finds the queue of the configuration.
func (h *Handler) openQueue() (err error) {
	if h.queue, err = h.app.Requests(); err != nil || h.queue == nil || h.site.Server == nil {
		h.queue = nil
		return err
	}
	if !route.Found(h.site.Server, h.site.Handler) {
		h.log.Warn("no request is queued here, since it could not be sent later: the directive stands in a route that invoke runs, or in handle_errors", "place", h.Place)
		h.queue = nil
		return nil
	}
	h.options.Queue = h.queue.For(h.site.Name, h.site.Listen())
	// Behind authentication the identity is known, so stint serves the statuses where a route has both.
	_, late := h.site.Handler.(*Late)
	h.statusesHere = late || !route.Has(h.site.Server, h.site.Handler, func(other caddyhttp.MiddlewareHandler) bool {
		_, is := other.(*Late)
		return is
	})
	return nil
}

// serveStatus serves the status resource of a queued request.
func (h *Handler) serveStatus(w http.ResponseWriter, r *http.Request) {
	client := ""
	if name := identity(r); name != "" {
		client = queue.Identified(name)
	} else {
		addr, _ := h.clientOf(r)
		client = queue.Anonymous(addr)
	}
	h.queue.ServeStatus(w, r, client)
}
