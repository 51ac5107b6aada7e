package service

import (
	"errors"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"stint/gateway/queue/operate"
	"stint/internal/logging"
	"stint/server/access"
)

func init() {
	caddy.RegisterModule(new(QueueAdmin))
	caddycmd.RegisterCommand(caddycmd.Command{
		Name: "queue", Usage: "list | show ID | retry ID... | drop ID... [--queue FILE|redis://...] [--address ADDR]", Short: operate.Usage,
		CobraFunc: operate.Configure,
	})
}

// QueueAdmin is the part of Caddy's admin API that operates on the queue: /stint/queue. Callers need the
// roles of the service: read for a list, support to show and retry records, write to drop them.
type QueueAdmin struct{}

// CaddyModule returns the module's name and constructor.
func (*QueueAdmin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.stint_queue", New: func() caddy.Module { return new(QueueAdmin) }}
}

var _ caddy.AdminRouter = (*QueueAdmin)(nil)

// Routes returns the routes of the queue.
func (*QueueAdmin) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: operate.Path, Handler: caddy.AdminHandlerFunc(serveQueue)},
		{Pattern: operate.Path + "/", Handler: caddy.AdminHandlerFunc(serveQueue)},
	}
}

var errNoQueue = errors.New("the configuration has no queue; add queue FILE, or queue redis://HOST:PORT, to the block stint")

func serveQueue(w http.ResponseWriter, r *http.Request) error {
	ctx := caddy.ActiveContext()
	if ctx.Context == nil {
		return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: errNoQueue}
	}
	a, err := Running(ctx)
	if err != nil || a.operations() == nil {
		return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: errors.Join(errNoQueue, err)}
	}
	handler, guard := a.operations(), a.guard()
	if guard.Open() { // Caddy has checked host and origin
		handler.ServeHTTP(w, r)
		return nil
	}
	guard.Require(roleFor(r), handler.ServeHTTP)(w, r)
	return nil
}

// roleFor returns the role that a call needs: a record shows personal data, and a dropped one is lost.
func roleFor(r *http.Request) access.Role {
	switch id := strings.Trim(strings.TrimPrefix(r.URL.Path, operate.Path), "/"); {
	case r.Method == http.MethodDelete:
		return access.Write
	case r.Method == http.MethodGet && id == "":
		return access.Read
	}
	return access.Support
}

// guard returns the check of callers by the settings of the service. It reads the file of callers each
// time, so that a change is in force at once.
func (a *App) guard() *access.Guard {
	log := a.ctx.Slogger()
	g := &access.Guard{Refused: &logging.MisuseLog{Log: log, Event: "wrong call of the queue"}, Routes: []string{operate.Path}}
	config := a.config
	err := config.ReadToken()
	list, wrong := config.LoadAccess()
	if err := errors.Join(err, wrong); err != nil {
		log.Error("the queue refuses operators: their tokens cannot be read", "error", err)
		list = new(access.List) // of nobody
	}
	var file func() *access.List
	if list != nil {
		file = func() *access.List { return list }
	}
	g.Lists = access.Lists(config.AdminToken, file)
	return g
}
