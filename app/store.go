package app

import (
	"sync"
	"time"

	"stint/chain/router"
	"stint/chain/servers"
	"stint/fleet/gossip"
	"stint/fleet/gossip/members"
	"stint/internal/system"
	"stint/store/memory"
	"stint/store/redis/connect"
	"stint/telemetry"
)

// stores are the stores with the counts: memory, or servers on the network. With servers, memory
// has the counts of on_store_failure: local.
type stores struct {
	memory  *memory.Store
	servers []*server      // on the network; none: memory decides
	placed  *servers.Store // distributes keys over several servers; nil for one
	gossip  *gossip.Store
	members *members.Members // members of gossip; nil: gossip is off
	lock    *system.FileLock // lock of the state file; nil: there is none
}

// openStore opens the configured store.
func (a *App) openStore() (err error) {
	c := &a.config
	if c.Store == "memory" {
		a.stores.memory, err = a.newStore()
		return err
	}
	list, err := connect.Servers(c.Store)
	if err != nil {
		return c.StoreError(err)
	}
	a.stores.memory = memory.New(memory.Options{Budget: c.Memory})
	if c.State != "" {
		if err := a.lockState(); err != nil {
			return err
		}
	}
	places := make([]servers.Server, 0, len(list))
	for _, one := range list {
		s := &server{name: one.Name}
		if len(list) == 1 {
			s.name = c.StoreName()
		}
		if err := a.openServer(s, one.URL); err != nil {
			return c.StoreError(err)
		}
		a.stores.servers = append(a.stores.servers, s)
		places = append(places, servers.Server{Name: one.Name, Store: router.New(s.routes())})
	}
	if len(list) > 1 {
		a.stores.placed, err = servers.New(places)
	}
	return err
}

// closeTimeout bounds the closing of the connections to all servers, as a frozen server does not
// answer.
const closeTimeout = 250 * time.Millisecond

// close closes the stores and releases the state file.
func (s *stores) close() {
	if s.lock != nil {
		// An error is only about the lock's file; the lock is released.
		_ = s.lock.Release()
		s.lock = nil
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		var all sync.WaitGroup
		if s.placed != nil {
			s.placed.Close() // before the servers, as it may have refunds for them
		}
		for _, one := range s.servers {
			all.Go(one.shared.Close)
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

// stats returns the numbers of the store in memory, for metrics.
func (s *stores) stats() telemetry.StoreStats {
	n := s.memory.Stats()
	return telemetry.StoreStats{
		Keys: n.Keys, Bytes: n.Bytes,
		EvictedExpired: uint64(n.Expired), EvictedIdle: uint64(n.EvictedIdle), EvictedOverLimit: uint64(n.EvictedOver),
	}
}

// sharedStats returns the numbers of all servers on the network together, for metrics: Away is true
// if any server is away.
func (s *stores) sharedStats() (sum telemetry.SharedStats) {
	for _, one := range s.servers {
		g := one.guarded.Status()
		for _, b := range one.serverStats() {
			sum.Servers = append(sum.Servers, b)
			sum.Away = sum.Away || b.Away
		}
		sum.Lost += one.lost.Load()
		sum.Timeouts += g.Timeouts
		sum.Errors += g.Errors
		sum.Spared += g.Spared
		sum.Undecodable += g.Undecodable
	}
	return sum
}

// leaseStats returns the numbers of each server's leases to this process.
func (s *stores) leaseStats() (all []telemetry.LeaseStats) {
	for _, one := range s.servers {
		all = append(all, telemetry.LeaseStats(one.leases.Stats()))
	}
	return all
}

// eventualStats returns the numbers of eventual rules for each server.
func (s *stores) eventualStats() (all []telemetry.EventualStats) {
	for _, one := range s.servers {
		all = append(all, telemetry.EventualStats(one.eventual.Stats()))
	}
	return all
}
