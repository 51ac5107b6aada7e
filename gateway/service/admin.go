package service

import (
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2"
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

var _ caddy.AdminRouter = (*Admin)(nil)

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
