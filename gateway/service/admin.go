package service

import (
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"

	"stint/gateway/queue"
)

func init() { caddy.RegisterModule(new(Admin)) }

// AdminPath is the beginning of the paths of the service in Caddy's admin API.
const AdminPath = "/stint"

// Admin is the part of Caddy's admin API below /stint/: the admin interface of the service that is
// running, such as /stint/v1/inspect. Both check the caller: Caddy the host and the origin, and the
// service the token and the role.
type Admin struct{}

// CaddyModule returns the module's name and constructor.
func (*Admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.stint", New: func() caddy.Module { return new(Admin) }}
}

var (
	_ caddy.AdminRouter = (*Admin)(nil)
	_ caddy.Provisioner = (*Admin)(nil)
)

// Provision lets the metrics of Caddy's admin API have those of the service while a configuration is refused:
// Caddy does not go back to the metrics of the one that stays in force.
func (*Admin) Provision(ctx caddy.Context) error {
	registry := ctx.GetMetricsRegistry()
	return registry.Register(inForceOnly{registry})
}

// inForceOnly has the metrics of the configuration in force for the registry of a refused one. In that of a
// configuration in force it has none, as its app has registered them.
type inForceOnly struct{ refused *prometheus.Registry }

var _ prometheus.Collector = inForceOnly{}

// Describe sends nothing, because the metrics change with the rules.
func (inForceOnly) Describe(chan<- *prometheus.Desc) {}

// Collect sends the metrics.
func (c inForceOnly) Collect(to chan<- prometheus.Metric) {
	ctx := caddy.ActiveContext()
	if ctx.Context == nil || ctx.GetMetricsRegistry() == c.refused {
		return
	}
	if a, err := Running(ctx); err == nil && a.shared != nil {
		a.shared.collectors.Collect(to)
		if a.requests != nil {
			(&queue.Collector{Storage: a.requests.storage, Counts: &a.requests.counts}).Collect(to)
		}
	}
}

// Routes returns the route of everything below /stint/.
func (*Admin) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{{Pattern: AdminPath + "/", Handler: caddy.AdminHandlerFunc(serveAdmin)}}
}

// serveAdmin serves a request by the service of the configuration in force.
func serveAdmin(w http.ResponseWriter, r *http.Request) error {
	handler, err := runningAdmin()
	if err != nil {
		return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: err}
	}
	http.StripPrefix(AdminPath, handler).ServeHTTP(w, r)
	return nil
}

func runningAdmin() (http.Handler, error) {
	ctx := caddy.ActiveContext()
	if ctx.Context == nil {
		return nil, errors.New("no configuration is in force")
	}
	a, err := Running(ctx)
	if err != nil {
		return nil, err
	}
	return a.Admin()
}
