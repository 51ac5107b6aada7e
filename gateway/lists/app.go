package lists

import (
	"log/slog"
	"maps"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"

	"stint/gateway/internal/filewatch"
)

func init() { caddy.RegisterModule(App{}) }

// App holds the lists of all handlers of a configuration and reads their files again when they
// change. It needs no configuration: the handlers load it. A file that several handlers name is in
// memory once.
type App struct {
	log   *slog.Logger
	lists map[string]*list // by path
	watch filewatch.Watch
}

var (
	_ caddy.App            = (*App)(nil)
	_ caddy.Provisioner    = (*App)(nil)
	_ prometheus.Collector = (*App)(nil)
)

// appName is the name of the module.
const appName = "stint_lists"

// CaddyModule returns the description of the module.
func (App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: appName, New: func() caddy.Module { return new(App) }}
}

// Provision prepares the App. Handlers add their files afterwards.
func (a *App) Provision(ctx caddy.Context) error {
	a.log, a.lists = ctx.Slogger(), map[string]*list{}
	if registry := ctx.GetMetricsRegistry(); registry != nil {
		return registry.Register(a)
	}
	return nil
}

// use returns the list in a file, which it reads. If full is set, the list must have an element.
// It is called only while a configuration is loaded.
func (a *App) use(path string, full bool) (*list, error) {
	l := a.lists[path]
	if l == nil {
		l = &list{path: path}
	}
	l.full = l.full || full
	if _, err := l.load(); err != nil {
		return nil, err
	}
	a.lists[path] = l
	return l, nil
}

// Start watches the files.
func (a *App) Start() error {
	return a.watch.Start(slices.Collect(maps.Keys(a.lists)), a.log, func() {
		for _, l := range a.lists {
			l.reload(a.log)
		}
	})
}

// Stop ends the watch. The lists stay usable for requests that are being served.
func (a *App) Stop() error {
	a.watch.Stop()
	return nil
}

// The metrics of each list; the label is the path of the file.
var (
	networksDesc = prometheus.NewDesc("stint_list_networks", "Networks and addresses in an address list.", []string{"file"}, nil)
	bytesDesc    = prometheus.NewDesc("stint_list_bytes", "Memory of an address list in bytes.", []string{"file"}, nil)
	staleDesc    = prometheus.NewDesc("stint_list_stale", "1 if the last change of the file was refused and an earlier list is in force, else 0.", []string{"file"}, nil)
)

// Describe implements prometheus.Collector.
func (a *App) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{networksDesc, bytesDesc, staleDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (a *App) Collect(ch chan<- prometheus.Metric) {
	for path, l := range a.lists {
		now := l.current.Load()
		stale := 0.0
		if l.stale.Load() {
			stale = 1
		}
		ch <- prometheus.MustNewConstMetric(networksDesc, prometheus.GaugeValue, float64(now.networks.Set.Len()), path)
		ch <- prometheus.MustNewConstMetric(bytesDesc, prometheus.GaugeValue, float64(now.bytes), path)
		ch <- prometheus.MustNewConstMetric(staleDesc, prometheus.GaugeValue, stale, path)
	}
}
