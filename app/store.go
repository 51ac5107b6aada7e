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

// stores are where counts are kept: in memory, or in servers on the network. Then memory
// holds what rules let pass by themselves while a server is away.
type stores struct {
	memory  *memory.Store
	servers []*server      // on the network; none: memory decides
	placed  *servers.Store // on several servers; nil where there is one
	gossip  *gossip.Store
	members *members.Members // it tells; nil: nobody
	lock    *system.FileLock // of the state file; nil: there is none
}

// openStore opens the store that the configuration asks for.
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

// closeTimeout is how long it may take to end the connections to all servers: one that stands
// still does not say goodbye, and nobody waits for it.
const closeTimeout = 250 * time.Millisecond

// close ends what the store has open, and gives the state file free.
func (s *stores) close() {
	if s.lock != nil {
		// Whatever is wrong with the name of the lock, the lock has ended.
		_ = s.lock.Release()
		s.lock = nil
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		var all sync.WaitGroup
		if s.placed != nil {
			s.placed.Close() // before the servers, which it may give back to
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

// stats are the numbers of a store in memory, as metrics show them.
func (s *stores) stats() telemetry.StoreStats {
	n := s.memory.Stats()
	return telemetry.StoreStats{
		Keys: n.Keys, Bytes: n.Bytes,
		EvictedExpired: uint64(n.Expired), EvictedIdle: uint64(n.EvictedIdle), EvictedOverLimit: uint64(n.EvictedOver),
	}
}

// sharedStats are the numbers of the servers on the network together, as metrics show
// them: one that is away is enough to be told.
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

// leaseStats are the numbers of what each server lent to this process.
func (s *stores) leaseStats() (all []telemetry.LeaseStats) {
	for _, one := range s.servers {
		all = append(all, telemetry.LeaseStats(one.leases.Stats()))
	}
	return all
}

// eventualStats are the numbers of what this process decides by itself, for each server.
func (s *stores) eventualStats() (all []telemetry.EventualStats) {
	for _, one := range s.servers {
		all = append(all, telemetry.EventualStats(one.own.Stats()))
	}
	return all
}
