package app

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"stint/internal/certs"
	"stint/internal/filewatch"
	"stint/internal/quiet"
	"stint/internal/wording"
	"stint/limiter"
	"stint/load"
	"stint/rule"
	"stint/rule/catalog/book"
	"stint/server/rls"
	"stint/server/rls/transport"
	"stint/telemetry"
	"stint/telemetry/envoystats"
)

// sweepEvery is how often memory of expired keys is given back.
const sweepEvery = 5 * time.Second

// App is one service: listeners, rules and a store. Its life is New, Start, Stop,
// each once; Run is Start and Stop with a wait between. All methods are safe for
// concurrent use.
type App struct {
	config    Config
	log       *slog.Logger
	stores    stores
	limiter   *limiter.Limiter
	rls       *rls.Handler
	metrics   *telemetry.Metrics
	gauges    load.Gauges
	rules     ruleset
	keys      *rule.KeySets
	listeners []*listener       // in the order in which they open
	certs     *certs.Certs      // of grpc; nil: it is not encrypted
	envoy     *envoystats.Stats // nil: nobody wants them
	carrier   *transport.Server // of grpc; nil: it is not opened
	book      *book.Book

	phase  atomic.Int32
	cancel context.CancelFunc // ends what runs in the background
	group  sync.WaitGroup     // what runs in the background
	failed chan error         // a listener that cannot go on
	stop   sync.Once
}

// The phases of a life.
const (
	starting = iota
	running
	draining
	stopped
)

var phaseNames = [...]string{"starting", "running", "draining", "stopped"}

// New returns a service that is ready to start. It reads and checks everything that
// can be wrong, the rules among it, takes over the counts of the state file, and opens
// and starts nothing. Errors are [*ConfigError] and [*rule.Errors].
func New(config Config) (*App, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	if err := config.readToken(); err != nil {
		return nil, err
	}
	table, err := config.LoadRules()
	if err != nil {
		return nil, err
	}
	a := &App{config: config, log: newLogger(&config)}
	if err = a.openStore(); err != nil {
		return nil, err
	}
	if err = a.openGossip(); err != nil {
		a.stores.close()
		return nil, err
	}
	if a.book, err = config.LoadCatalog(); err != nil {
		a.stores.close()
		return nil, err
	}
	a.metrics = telemetry.New(telemetry.NewRegistry())
	a.metrics.Store(a.stores.stats)
	if len(a.stores.servers) > 0 {
		a.metrics.Shared(a.stores.sharedStats)
		a.metrics.Leases(a.stores.leaseStats)
		a.metrics.LeaseRules(a.stores.leaseRules)
		a.metrics.Eventual(a.stores.eventualStats)
	}
	if len(a.stores.servers) > 0 && config.RememberRefusals {
		a.metrics.Refusals(a.stores.refusalStats)
	}
	a.metrics.Gossip(a.stores.gossipStats)
	a.metrics.Load(a.gauges.Load)
	a.metrics.Catalog(a.catalogStats)
	a.limiter = limiter.New(a.stores.joined(), table, limiter.Options{
		Observer: a.observer(), Load: a.gauges.Load, Catalog: a.book.Catalog(),
	})
	a.rls = rls.New(a.limiter, config.RLS.options())
	a.keys = rule.NewKeySets(rule.KeySetOptions{Report: (&quiet.Fetches{Log: a.log}).Report})
	a.rules.generation.Store(1)
	a.agree(table)()
	a.reloaded(table)
	if err = a.loadCerts(); err != nil {
		return nil, err
	}
	a.addListeners()
	a.failed = make(chan error, len(a.listeners)) // nobody reads a second one
	return a, nil
}

// readToken takes the token out of its file.
func (c *Config) readToken() error {
	if c.AdminTokenFile == "" {
		return nil
	}
	data, err := os.ReadFile(c.AdminTokenFile)
	if err != nil {
		return c.at("admin-token-file", "cannot read the token: "+wording.Cause(err), "check the path and its permissions")
	}
	if c.AdminToken = strings.TrimSpace(string(data)); c.AdminToken == "" {
		return c.at("admin-token-file", c.AdminTokenFile+" holds no token", "put the token there, in one line")
	}
	return nil
}

// addListeners makes the listeners of the configuration. Admin is the first to open
// and the last to close, so that start and end can be watched.
func (a *App) addListeners() {
	add := func(setting, address string, make func(*slog.Logger) answerer) {
		if address != "" {
			l := newListener(setting, address, a.log)
			l.server = make(l.log)
			a.listeners = append(a.listeners, l)
		}
	}
	add("admin", a.config.Admin, a.adminServer)
	add("metrics", a.config.Stats.Metrics, a.metricsServer)
	add("http", a.config.HTTP, a.trafficServer)
	add("grpc", a.config.GRPC, a.rlsServer)
}

// Start opens the listeners and returns once they accept calls. On an error nothing
// is left open. ctx bounds the start only.
func (a *App) Start(ctx context.Context) error {
	a.greet()
	a.lookAll(ctx)
	a.keys.Use(a.limiter.Table())
	if err := a.open(ctx); err != nil {
		a.keys.Close()
		a.stores.close()
		a.closeBook()
		return err
	}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.cancel = cancel
	a.group.Go(func() { a.stores.gossip.Run(background) })
	a.group.Go(func() { every(background, sweepEvery, a.stores.memory.Sweep) })
	for _, s := range a.stores.servers {
		a.group.Go(func() { every(background, lookEvery, func() { a.look(background, s) }) })
		if s.recall != nil {
			a.group.Go(func() { s.recall.Run(background) })
		}
		a.group.Go(func() { s.leases.Run(background) })
		a.group.Go(func() { s.shares.Run(background) })
		a.group.Go(func() {
			s.own.Run(background)
			if keys, units := s.own.Untold(); keys > 0 {
				a.log.Warn("the store was not told all that eventual limits let pass; so much may pass once more", "store", s.name, "keys", keys, "units", units)
			}
		})
	}
	if a.config.State != "" && a.config.StateInterval > 0 {
		a.group.Go(func() { every(background, a.config.StateInterval, func() { a.save(slog.LevelDebug) }) })
	}
	a.watch(background)
	a.watchCerts(background)
	a.sendStats(background)
	a.watchCatalog(background)
	for _, l := range a.listeners {
		a.metrics.Listener(l.setting, true)
		l.server.Ready(true)
	}
	a.phase.Store(running) // whoever asks first is told so on every listener
	for _, l := range a.listeners {
		a.group.Go(func() {
			if err := l.serve(); err != nil {
				a.failed <- err
			}
		})
	}
	return nil
}

// open opens gossip and the listeners, or nothing.
func (a *App) open(ctx context.Context) error {
	if err := a.startGossip(ctx); err != nil {
		return err
	}
	for i, l := range a.listeners {
		if err := l.open(ctx, &a.config); err != nil {
			for _, opened := range a.listeners[:i] {
				opened.net.Close()
			}
			if a.stores.members != nil {
				a.stores.members.Close()
			}
			return err
		}
	}
	return nil
}

// greet logs what the service is about to do, and what it will not do.
func (a *App) greet() {
	table := a.limiter.Table()
	a.log.Info("rules loaded", "why", "start", "rules", len(table.Rules()), "domains", len(table.Domains()), "hash", table.Hash())
	a.warn(table)
	a.greetCatalog()
	for _, text := range a.config.warnings {
		a.log.Warn(text)
	}
	if len(a.config.Rules)+len(a.config.Catalog) == 0 && a.config.CatalogDB == "" {
		a.log.Warn("no rules are given: only limits that stand in a request are decided", "hint", "give --rules FILE")
	}
	if a.config.RESP != "" {
		a.log.Info("protocol not built yet, listener not opened", "listener", "resp", "address", a.config.RESP)
	}
}

// watch begins to look for changes of the rules.
func (a *App) watch(ctx context.Context) {
	if len(a.config.Rules) == 0 {
		return
	}
	find := filewatch.New
	if a.config.RulesFiles != filesYAML {
		find = filewatch.NewTree
	}
	w, err := find(a.config.Rules, a.log)
	if err != nil {
		a.log.Warn("cannot watch for changes of the rules; send SIGHUP after a change", "error", err)
		return
	}
	a.group.Go(func() {
		w.Run(ctx, func() []string {
			// The error has been logged, and the old rules stay.
			return a.listFiles(a.reload("files changed", false))
		})
	})
}

// every calls do at each interval until ctx is done.
func every(ctx context.Context, interval time.Duration, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			do()
		}
	}
}

// Stop drains and ends the service: it accepts nothing more, waits for the calls in
// flight for at most DrainTimeout, or until ctx is done, and cuts the rest. Once it
// has returned nothing of the service runs but connections to a store that does not answer,
// which end by themselves, and the counts are in the state file.
func (a *App) Stop(ctx context.Context) {
	a.stop.Do(func() { a.end(ctx) })
}

func (a *App) end(ctx context.Context) {
	began := time.Now()
	a.phase.Store(draining)
	a.log.Info("draining", "delay", a.config.DrainDelay.String(), "timeout", a.config.DrainTimeout.String())
	for _, l := range a.listeners {
		l.server.Ready(false)
	}
	wait(ctx, a.config.DrainDelay)
	a.drain(ctx)
	if a.cancel != nil {
		a.cancel()
	}
	a.keys.Close()
	a.group.Wait()
	if a.cancel != nil && a.config.State != "" {
		a.save(slog.LevelInfo) // nobody decides any more
	}
	a.stores.close()
	a.closeBook()
	a.phase.Store(stopped)
	a.log.Info("stopped", "took", time.Since(began).Round(time.Millisecond).String())
}

// drain drains the listeners, all at once but for those by which the end can be watched.
func (a *App) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, a.config.DrainTimeout)
	defer cancel()
	silent := time.Now().Add(silence)
	end := func(l *listener) {
		l.drain(ctx, silent)
		a.metrics.Listener(l.setting, false)
	}
	var traffic sync.WaitGroup
	for _, l := range a.listeners {
		if !l.watches() {
			traffic.Go(func() { end(l) })
		}
	}
	traffic.Wait()
	for _, l := range a.listeners {
		if l.watches() {
			end(l)
		}
	}
}

// wait waits for d, or until ctx is done.
func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Run starts the service, waits until ctx is done or a listener fails, and stops
// it. It returns nil where ctx ended it.
func (a *App) Run(ctx context.Context) error {
	if err := a.Start(ctx); err != nil {
		return err
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-a.failed:
		a.log.Error("cannot go on", "error", err)
	}
	a.Stop(context.WithoutCancel(ctx))
	return err
}

// Addr returns where the listener of that setting ("http", "grpc", "admin") accepts calls,
// after Start; "" if there is none. It tells the port where the address has port 0.
func (a *App) Addr(setting string) string {
	for _, l := range a.listeners {
		if l.setting == setting && l.net != nil {
			return l.addr()
		}
	}
	return ""
}
