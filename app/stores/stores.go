// Package stores builds the stores of a service from its configuration: memory, servers on the
// network with what stands before them, and gossip. It watches the servers, says what is wrong with
// them, and keeps the counts of a process in its state file.
package stores

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"stint"
	"stint/app/settings"
	"stint/chain/router"
	"stint/chain/servers"
	"stint/fleet/gossip"
	"stint/fleet/gossip/members"
	"stint/internal/logging"
	"stint/internal/system"
	"stint/rule"
	"stint/store/memory"
	"stint/telemetry"
)

// Options are what the stores of a service need from it.
type Options struct {
	Config *settings.Config
	Log    *slog.Logger

	// Traced returns a store on the network with the traces of its calls. Nil: there are none.
	Traced func(inner stint.Store, system, server string) stint.Store

	// OnAlone is called when the gossip node has found other nodes, or has lost all of them.
	OnAlone func()

	// OnLost is called with the name of a server that may have lost counts.
	OnLost func(server string)

	// LossEnds returns when the last take of a durable rule no longer depends on what was counted before a loss. It
	// must not call the stores. Nil: that is so when the period of the rule's own limit ends.
	LossEnds func(r *rule.Rule, lost stint.Instant) stint.Instant

	// OnFailure is called with an error after which the service must not continue. It must not block.
	OnFailure func(error)
}

// Stores are the stores with the counts: memory, or servers on the network. With servers, memory has
// the counts of on_store_failure: local. All methods are safe for concurrent use, except those that
// start and end a service.
type Stores struct {
	config  *settings.Config
	log     *slog.Logger
	options Options
	metrics *telemetry.Metrics // set by Register

	memory  *memory.Store
	journal atomic.Pointer[system.Journal] // of durable takes; nil: there was none yet
	durable *durable                       // memory with the journal; nil: there is no state file, or counts are at a server
	servers []*server                      // on the network; none: memory decides
	placed  *servers.Store                 // distributes keys over several servers; nil for one
	gossip  *gossip.Store
	members *members.Members // members of gossip; nil: gossip is off

	state     string             // path of the state file, with links resolved
	saving    sync.Mutex         // held while the state file is written
	saves     logging.RetryLog   // logs how that went
	drop      func() error       // drops what a save has of the journal; nil: the next save begins a file of it
	lock      *system.FileLock   // lock of the state file; nil: there is none
	secret    *rule.KeySecret    // hashes values in keys; nil: they use the plain SHA-256
	newSecret settings.NewSecret // to write beside the state file

	losses    losses
	replayed  system.Replayed // of the journal
	stateLost bool            // the state file was there, and cannot be used
	unmarked  atomic.Bool     // the state file does not say yet which file of the journal is written

	refused atomic.Bool // a server has another secret
}

// Open opens the configured stores, and loads the counts of the state file. It starts nothing. Errors
// are [*settings.Error].
func Open(options Options) (*Stores, error) {
	st := &Stores{config: options.Config, log: options.Log, options: options}
	st.saves = logging.RetryLog{
		Log: st.log, Event: "counts not saved", Again: "counts are saved again", About: []any{"file", st.config.State},
		Hint: "see that the disk has room and the folder can be written; until then a restart goes back to the last counts that were saved",
	}
	for _, open := range []func() error{st.openStore, st.openSecret, st.openGossip} {
		if err := open(); err != nil {
			st.Close()
			return nil, err
		}
	}
	return st, nil
}

// Chain returns the store that decides all calls.
func (st *Stores) Chain() stint.Store {
	routes := st.routes()
	routes.Gossip = st.gossip
	return router.New(routes)
}

// OnNetwork reports whether the counts are in servers on the network.
func (st *Stores) OnNetwork() bool { return len(st.servers) > 0 }

// Register registers the numbers of the stores.
func (st *Stores) Register(m *telemetry.Metrics) {
	st.metrics = m
	m.Store(st.stats)
	if st.OnNetwork() {
		m.Shared(st.sharedStats)
		m.Leases(st.leaseStats)
		m.LeaseRules(st.leaseRules)
		m.Eventual(st.eventualStats)
	}
	if st.Lends() && st.config.RememberRefusals {
		m.Refusals(st.refusalStats)
	}
	m.Gossip(st.gossipStats)
	m.Losses(st.lossStats)
}

// sweepEvery is the time between two sweeps of expired keys from memory.
const sweepEvery = 5 * time.Second

// Run starts what the stores do in the background, in goroutines of group, until ctx is done.
func (st *Stores) Run(ctx context.Context, group *sync.WaitGroup) {
	group.Go(func() { st.gossip.Run(ctx) })
	group.Go(func() { system.Every(ctx, sweepEvery, st.memory.Sweep) })
	for _, s := range st.servers {
		st.runServer(ctx, group, s)
	}
	if st.config.State != "" && st.config.StateInterval > 0 && !st.OnNetwork() {
		group.Go(func() { system.Every(ctx, st.config.StateInterval, func() { st.save(slog.LevelDebug) }) })
	}
	if st.durable != nil {
		group.Go(func() { system.Every(ctx, journalEvery, st.checkJournal) })
	}
}

func (st *Stores) runServer(ctx context.Context, group *sync.WaitGroup, s *server) {
	group.Go(func() { system.Every(ctx, LookEvery, func() { st.look(ctx, s) }) })
	if s.denials != nil {
		group.Go(func() { s.denials.Run(ctx) })
	}
	group.Go(func() { s.leases.Run(ctx) })
	group.Go(func() { s.shares.Run(ctx) })
	group.Go(func() {
		s.eventual.Run(ctx)
		if keys, units := s.eventual.Unsent(); keys > 0 {
			st.log.Warn("could not report all usage of eventual limits to the store; it may be admitted once more", "store", s.name, "keys", keys, "units", units)
		}
	})
}

// Warn logs what the configuration and the servers lack for rules, and watches losses of the durable ones.
func (st *Stores) Warn(table *rule.Table) {
	st.watchLosses(table)
	st.warnOfGossip(table)
	st.warnOfSecret(table)
	for _, s := range st.servers { // after a reload; a start looks at them later
		st.warnOfUnsaved(s)
	}
}

// openStore opens the configured store.
func (st *Stores) openStore() (err error) {
	c := st.config
	if c.Store == "memory" {
		if st.memory, err = st.newStore(); err != nil || c.State == "" {
			return err
		}
		loss, err := st.replay()
		if err == nil {
			st.durable = st.openDurable(loss)
		}
		return err
	}
	list, err := c.StoreServers()
	if err != nil {
		return c.StoreError(err)
	}
	st.memory = memory.New(memory.Options{Budget: c.Memory})
	if c.State != "" {
		if err := st.lockState(); err != nil {
			return err
		}
	}
	places := make([]servers.Server, 0, len(list))
	for _, one := range list {
		s := &server{name: one.Name}
		if len(list) == 1 {
			s.name = c.StoreName()
		}
		if err := st.openServer(s, one.URL); err != nil {
			return c.StoreError(err)
		}
		st.servers = append(st.servers, s)
		places = append(places, servers.Server{Name: one.Name, Store: router.New(s.routes())})
	}
	if len(list) > 1 {
		st.placed, err = servers.New(places)
	}
	return err
}

// closeTimeout bounds the closing of the connections to all servers, as a frozen server does not
// answer.
const closeTimeout = 250 * time.Millisecond

// Close closes the stores and releases the state file.
func (st *Stores) Close() {
	if j := st.journal.Load(); j != nil {
		if err := j.Close(); err != nil {
			st.log.Error("cannot close the journal of durable takes", "file", st.config.State, "error", err)
		}
	}
	if st.lock != nil {
		// An error is only about the lock's file; the lock is released.
		_ = st.lock.Release()
		st.lock = nil
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		var all sync.WaitGroup
		if st.placed != nil {
			st.placed.Close() // before the servers, as it may have refunds for them
		}
		for _, one := range st.servers {
			all.Go(one.close)
		}
		all.Wait()
	}()
	wait := time.NewTimer(closeTimeout)
	defer wait.Stop()
	select {
	case <-closed:
	case <-wait.C:
	}
}

// EvictedOver returns how many keys over their limit the store in memory has evicted since the start.
func (st *Stores) EvictedOver() uint64 { return uint64(st.memory.Stats().EvictedOver) }

// stats returns the numbers of the store in memory, for metrics.
func (st *Stores) stats() telemetry.StoreStats {
	n := st.memory.Stats()
	return telemetry.StoreStats{
		Keys: n.Keys, Bytes: n.Bytes,
		EvictedExpired: uint64(n.Expired), EvictedIdle: uint64(n.EvictedIdle), EvictedOverLimit: uint64(n.EvictedOver),
	}
}

// sharedStats returns the numbers of all servers on the network together, for metrics: Away is true
// if any server is away.
func (st *Stores) sharedStats() (sum telemetry.SharedStats) {
	for _, one := range st.servers {
		g := one.guarded.Status()
		for _, b := range one.serverStats() {
			sum.Servers = append(sum.Servers, b)
			sum.Away = sum.Away || b.Away
		}
		sum.Lost += one.lost.Load()
		sum.Evicted += one.evicted.Load()
		sum.Timeouts += g.Timeouts
		sum.Errors += g.Errors
		sum.Spared += g.Spared
		sum.Undecodable += g.Undecodable
	}
	return sum
}

// leaseStats returns the numbers of each server's leases to this process.
func (st *Stores) leaseStats() (all []telemetry.LeaseStats) {
	for _, one := range st.servers {
		all = append(all, telemetry.LeaseStats(one.leases.Stats()))
	}
	return all
}

// eventualStats returns the numbers of eventual rules for each server.
func (st *Stores) eventualStats() (all []telemetry.EventualStats) {
	for _, one := range st.servers {
		all = append(all, telemetry.EventualStats(one.eventual.Stats()))
	}
	return all
}
