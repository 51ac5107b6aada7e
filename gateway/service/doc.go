// Package service is Caddy's app `stint`: it runs Stint's service inside Caddy.
//
// The service has the rules, the store and the records that all directives use. It starts with the
// configuration of Caddy, and lives over its reloads: counts, connections and metrics carry over. A
// configuration that is only validated reads the rules, and opens and starts nothing.
//
// A module that needs the service keeps the App of its configuration when it is provisioned, and
// asks that for the service when requests arrive:
//
//	func (h *Handler) Provision(ctx caddy.Context) (err error) {
//		h.app, err = service.Running(ctx)
//		return err
//	}
//
//	func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
//		running, err := h.app.Service()
//		...
//	}
package service
