package app

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"stint/app/settings"
	"stint/app/stores"
	"stint/internal/config"
	"stint/internal/logging"
	"stint/internal/web"
	"stint/limiter"
	"stint/load"
	"stint/records"
	"stint/rule/catalog/book"
	"stint/rule/rulefile"
	"stint/server/access"
	"stint/server/rls"
	"stint/server/rls/transport"
	"stint/store/redis/recordlog"
	"stint/telemetry"
	"stint/telemetry/otlp"
)

// App is one service: listeners, rules and a store. Call New, Start and Stop in this order, each
// once; Run starts, waits and stops. All methods are safe for concurrent use.
type App struct {
	config     settings.Config
	log        *slog.Logger
	stores     *stores.Stores
	limiter    *limiter.Limiter
	rls        *rls.Handler
	metrics    *telemetry.Metrics
	alarms     *telemetry.Alarms
	otlp       *otlp.Exporter // nil: not configured
	gauges     load.Gauges
	rules      ruleset
	keys       *rulefile.KeySets
	listeners  []*listener                 // in the order of opening
	certs      map[string]*web.Certs       // by listener; none: it is not encrypted
	access     atomic.Pointer[access.List] // callers of admin; nil: there is no file of them
	gates      gates
	envoy      *telemetry.EnvoyStats // nil: not configured
	grpcServer *transport.Server     // server of grpc; nil: it is not opened
	book       *book.Book
	records    *records.File  // nil: not configured
	recordLog  *recordlog.Log // nil: the records are not shared
	clients    *clients       // nil: there are no records
	plans      storedPlans
	facts      *knowledge // nil: not configured
	webhooks   *webhooks  // nil: there are no receivers

	rulesInRecords bool // book has its rules there

	phase  atomic.Int32
	phases sync.Mutex         // held while the listeners learn of a change
	cancel context.CancelFunc // ends the goroutines of group
	group  sync.WaitGroup     // background goroutines
	failed chan error         // errors after which the service cannot continue
	retry  chan struct{}      // a reload must be tried again
	stop   sync.Once
}

// The phases of a service.
const (
	starting = iota
	running
	draining
	stopped
)

var phaseNames = [...]string{"starting", "running", "draining", "stopped"}

// New returns a service that is ready to start. It reads and checks everything that can be wrong,
// including the rules, and loads the counts of the state file. It opens and starts nothing. Errors
// are [*settings.Error] and [*rule.Errors].
func New(config settings.Config) (*App, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	if err := config.ReadToken(); err != nil {
		return nil, err
	}
	a := &App{config: config, log: config.Logger(), retry: make(chan struct{}, 1)}
	table, err := LoadRules(&a.config)
	if err != nil {
		return nil, err
	}
	if err = a.openAccess(); err != nil {
		return nil, err
	}
	if err = a.openOTLP(); err != nil {
		return nil, err
	}
	a.stores, err = stores.Open(stores.Options{Config: &a.config, Log: a.log, Traced: a.otlp.Store, OnAlone: a.readyChanged, OnFailure: a.failService, OnLost: a.markLoss, LossEnds: a.lossEnds})
	if err != nil {
		return nil, err
	}
	if a.book, err = config.LoadCatalog(); err != nil {
		a.discard()
		return nil, err
	}
	if err = a.openRecords(); err != nil {
		a.discard()
		return nil, err
	}
	table = a.addPlans(table)
	a.metrics = a.registry()
	a.metrics.Built(Version())
	a.openClients()
	if err = a.openFacts(); err != nil {
		a.discard()
		return nil, err
	}
	if err = a.openWebhooks(); err != nil {
		a.discard()
		return nil, err
	}
	a.stores.Register(a.metrics)
	a.metrics.Load(a.gauges.Load)
	a.metrics.Catalog(a.catalogStats)
	if a.records != nil {
		a.metrics.Records(a.recordsStats)
	}
	a.openAlarms()
	a.limiter = limiter.New(a.stores.Chain(), table, limiter.Options{
		Secret: a.stores.Secret(), Observer: a.observer(), Tracer: a.otlp.Tracer(), Load: a.gauges.Load, Catalog: a.book.Catalog(), Records: a.limiterRecords(),
		DenyUnmatched: config.DeniesUnmatched(), Unknown: a.alarms.Unknown,
	})
	a.metrics.Lines(a.limiter.Lines().Stats)
	a.rls = rls.New(a.limiter, config.RLS.Options(config.EnvoyEnv))
	a.keys = rulefile.NewKeySets(rulefile.KeySetOptions{Report: (&logging.FetchLog{Log: a.log}).Report})
	a.rules.generation.Store(1)
	a.stores.Announce(table)()
	a.reloaded(table, true)
	if err = a.loadCerts(); err != nil {
		a.discard()
		return nil, err
	}
	a.gates = newGates(&a.config, a.log)
	a.addListeners()
	a.failed = make(chan error, len(a.listeners)+1) // only the first error is read
	return a, nil
}

// discard closes what New has opened so far, for a service that does not start.
func (a *App) discard() {
	a.closeWebhooks()
	a.closeFacts()
	if a.keys != nil {
		a.keys.Close()
	}
	a.stores.Close()
	if a.book != nil {
		a.closeBook()
	}
	a.closeRecords()
}

// addListeners makes the listeners of the configuration. Admin opens first and closes last, so that
// monitoring sees start and end.
func (a *App) addListeners() {
	add := func(setting, address string, make func(*slog.Logger) answerer) {
		if address != "" {
			l := newListener(setting, address, a.log)
			l.server = make(l.log)
			if setting != "grpc" { // its server does the TLS
				l.tls = a.tls(setting)
			}
			a.listeners = append(a.listeners, l)
		}
	}
	add("admin", a.config.Admin, a.adminServer)
	add("metrics", a.config.Stats.Metrics, a.metricsServer)
	add("http", a.config.HTTP, a.trafficServer)
	add("grpc", a.config.GRPC, a.rlsServer)
	add("resp", a.config.RESP, a.respServer)
}

// Start opens the listeners and returns once they accept calls. On an error it leaves nothing open.
// ctx bounds only the start.
func (a *App) Start(ctx context.Context) error {
	a.logStart()
	a.stores.Look(ctx)
	a.keys.Use(a.limiter.Table())
	err := a.startError()
	if err == nil {
		err = a.stores.CheckDurable(a.limiter.Table())
	}
	if err == nil {
		err = a.stores.KeepSecret()
	}
	if err == nil {
		err = a.open(ctx)
	}
	if err != nil {
		a.discard()
		return err
	}
	a.stores.LoadShares()
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.cancel = cancel
	a.otlp.Start(a.metrics.Gatherer())
	a.stores.Run(background, &a.group)
	a.group.Go(func() { a.runRetries(background) })
	a.group.Go(func() { a.alarms.Run(background) })
	a.watch(background)
	a.watchCerts(background)
	a.watchAccess(background)
	a.sendStats(background)
	a.watchCatalog(background)
	a.followRecords(background)
	a.runFacts(background)
	a.runWebhooks(background)
	for _, l := range a.listeners {
		a.metrics.Listener(l.setting, true)
	}
	a.phase.Store(running) // before any listener answers, so that the first caller sees it everywhere
	a.readyChanged()
	for _, l := range a.listeners {
		a.group.Go(func() {
			if err := l.serve(); err != nil {
				a.failed <- err
			}
		})
	}
	return nil
}

// open opens gossip and the listeners, all or nothing.
func (a *App) open(ctx context.Context) error {
	if err := a.unwanted(); err != nil {
		return err
	}
	if err := a.stores.StartGossip(ctx); err != nil {
		return err
	}
	for i, l := range a.listeners {
		if err := l.open(ctx, a); err != nil {
			for _, opened := range a.listeners[:i] {
				opened.net.Close()
			}
			a.stores.Leave()
			return err
		}
	}
	return nil
}

// failService ends the service, or prevents its start.
func (a *App) failService(err error) {
	select {
	case a.failed <- err:
	default: // the service ends already
	}
}

// startError returns why the service must not start, nil if it may.
func (a *App) startError() error {
	select {
	case err := <-a.failed:
		return err
	default:
		return nil
	}
}

// logStart logs the rules, warnings about the configuration, and settings that have no effect.
func (a *App) logStart() {
	table := a.limiter.Table()
	a.log.Info("rules loaded", "reason", "start", "rules", len(table.Rules()), "domains", len(table.Domains()), "hash", table.Hash())
	a.warn(table)
	a.logCatalog()
	for _, text := range a.config.Warnings {
		a.log.Warn(text)
	}
	if len(a.config.Rules)+len(a.config.Catalog) == 0 && a.config.CatalogDB == "" {
		a.log.Warn("no rules are given: only limits in requests are decided", "hint", "give --rules FILE")
	}
	if a.config.EnvoyEnv && a.config.Unmatched == settings.UnmatchedDeny {
		a.log.Warn("unmatched is ignored: requests to which no limit applies pass, as with envoyproxy/ratelimit", "unmatched", a.config.Unmatched,
			"hint", "leave out envoy-env, or unmatched")
	}
}

// watchRulesLocked watches the rule files for changes until ctx is done. The caller holds a.rules.mu.
func (a *App) watchRulesLocked(ctx context.Context) {
	find := config.NewWatcher
	if a.config.RulesFiles != settings.FilesYAML {
		find = config.NewTreeWatcher
	}
	a.follow(ctx, "rules", find, a.config.Rules, func(why string) []string {
		// reload has logged the error and kept the old rules.
		return a.listFiles(a.retrying(a.reload(why, false)))
	})
}

// follow calls changed whenever files may have changed, until ctx is done. what names the files in
// the log; changed returns more files to watch.
func (a *App) follow(ctx context.Context, what string, find func([]string, *slog.Logger) (*config.Watcher, error), files []string, changed func(why string) []string) {
	if len(files) == 0 {
		return
	}
	w, err := find(files, a.log)
	if err != nil {
		a.log.Warn("cannot watch for changes of the "+what+"; send SIGHUP after a change", "error", err)
		return
	}
	a.group.Go(func() {
		w.Run(ctx, func() []string { return changed("files changed") })
	})
}

// Run starts the service, waits until ctx is done or a listener fails, and stops it. It returns nil
// if ctx ended it.
func (a *App) Run(ctx context.Context) error {
	if err := a.Start(ctx); err != nil {
		return err
	}
	if err := a.config.Notify.Ready("serving"); err != nil {
		a.log.Warn("cannot report to the service manager: it may end this process", "error", err, "hint", "check NOTIFY_SOCKET, and NotifyAccess of the unit")
	}
	watched, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	defer unwatch()
	go a.config.Notify.Watch(watched, func() { a.status() }) // which hangs if the service does
	var err error
	select {
	case <-ctx.Done():
	case err = <-a.failed:
		a.log.Error("cannot continue", "error", err)
	}
	a.config.Notify.Stopping()
	a.Stop(context.WithoutCancel(ctx))
	return err
}

// Addr returns the address at which the listener of a setting ("http", "grpc", "admin") accepts
// calls, after Start; "" if there is none. If the setting has port 0 it contains the real port.
func (a *App) Addr(setting string) string {
	for _, l := range a.listeners {
		if l.setting == setting && l.net != nil {
			return web.Address(l.net)
		}
	}
	return ""
}
