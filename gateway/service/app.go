package service

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"

	"stint/app"
	"stint/app/settings"
	"stint/gateway/queue"
	"stint/gateway/queue/route"
	"stint/rule"
)

func init() { caddy.RegisterModule(new(App)) }

// Name is the name of the app in Caddy's configuration.
const Name = "stint"

// App is the app `stint` of one configuration of Caddy. Configurations with the same settings, but for
// rules, share one running service.
type App struct {
	// Settings are the values of settings of the service, by the names that they have there, such as
	// store. Paths are relative to the working directory.
	Settings map[string][]string `json:"settings,omitempty"`

	// Places are the places of the settings in the configuration file, such as Caddyfile:3, for
	// errors.
	Places map[string]string `json:"places,omitempty"`

	// Queue keeps requests that limits with `excess: queue` deny. Nil: there is none, and they are denied.
	Queue *Queue `json:"queue,omitempty"`

	sites   route.Sites
	servers servers
	config  settings.Config
	table   *rule.Table
	ctx     caddy.Context
	opening sync.Once
	shared  *shared // nil: not opened
	err     error   // why it could not be opened

	requests *requests // nil: there is no queue, or it was not opened

	secretsMu sync.Mutex
	secrets   []string // names of headers that the queue does not store
}

var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)

// CaddyModule returns the module's name and constructor.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: Name, New: func() caddy.Module { return new(App) }}
}

// Running returns the app of the configuration that ctx belongs to. Modules call it when they are
// provisioned; only Table and Config can be used then.
func Running(ctx caddy.Context) (*App, error) {
	found, err := ctx.AppIfConfigured(Name)
	if errors.Is(err, caddy.ErrNotConfigured) {
		return nil, errors.New("the app stint is not configured; hint: add the global option `stint { rules FILE }`")
	}
	if err != nil {
		return nil, err
	}
	return found.(*App), nil
}

// Provision reads the settings and the rules. It opens and starts nothing.
func (a *App) Provision(ctx caddy.Context) error {
	a.ctx = ctx
	config, err := configure(a)
	if err == nil {
		err = config.Check()
	}
	if err == nil {
		_, err = config.LoadAccess()
	}
	if err == nil {
		a.table, err = app.LoadRules(&config)
	}
	if faults, ok := errors.AsType[*rule.Errors](err); ok && len(faults.List) > 0 && faults.List[0].Line == 0 {
		first := faults.List[0]
		err = config.Fault("rules", first.File+": "+first.Problem, first.Hint)
	}
	if err != nil {
		return Explain(err)
	}
	a.config = config
	if a.Queue != nil {
		return a.Queue.provision()
	}
	return nil
}

// Table returns the rules that this configuration read when it was provisioned, for checks.
func (a *App) Table() *rule.Table { return a.table }

// Config returns the settings of the service.
func (a *App) Config() *settings.Config { return &a.config }

// Start starts the service, or takes over the one that runs.
func (a *App) Start() error {
	_, err := a.Service()
	if err == nil {
		a.warnQueue()
	}
	return err
}

// Stop does nothing: requests may still be served. Cleanup ends the service.
func (a *App) Stop() error { return nil }

// Service returns the running service. Caddy starts its apps in any order, so the first caller starts
// the service. It must not be called before the configuration is started.
func (a *App) Service() (*app.App, error) {
	a.opening.Do(a.open)
	if a.err != nil {
		return nil, a.err
	}
	return a.shared.service, nil
}

// Admin returns the handler of the service's admin interface, with its own check of callers. Paths
// begin with /v1, as on the admin address of the service.
func (a *App) Admin() (http.Handler, error) {
	if _, err := a.Service(); err != nil {
		return nil, err
	}
	return a.shared.admin, nil
}

func (a *App) open() {
	a.shared, a.err = join(a)
	if a.err != nil {
		a.err = Explain(a.err)
		return
	}
	if a.Queue != nil {
		if a.requests, a.err = joinRequests(a); a.err != nil {
			return
		}
		if err := a.ctx.GetMetricsRegistry().Register(&queue.Collector{Storage: a.requests.storage, Counts: &a.requests.counts}); err != nil {
			a.ctx.Slogger().Error("metrics of the queue are not served", "error", err)
		}
	}
	err := a.ctx.GetMetricsRegistry().Register(a.shared.collectors)
	if _, again := errors.AsType[prometheus.AlreadyRegisteredError](err); err != nil && !again {
		a.ctx.Slogger().Error("metrics of the service are not served", "error", err)
	}
}

// Cleanup leaves the service. The last configuration that uses it stops it.
func (a *App) Cleanup() error {
	a.opening.Do(func() { a.err = errors.New("the configuration has ended") })
	var err error
	if a.requests != nil {
		err = a.requests.leave(a)
	}
	if a.shared == nil {
		return err
	}
	return errors.Join(err, a.shared.leave(a))
}

// place returns the place of a setting, for errors. A configuration in JSON has its path there.
func (a *App) place(name string) string { return cmp.Or(a.Places[name], "apps.stint.settings."+name) }

// key returns what configurations that share a service have in common: all settings but rules.
func (a *App) key() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(a.Settings)) {
		if name != "rules" && !own[name] {
			b.WriteString(name + "\x00" + strings.Join(a.Settings[name], "\x01") + "\x02")
		}
	}
	return b.String()
}
