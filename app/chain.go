package app

import (
	"stint"
	"stint/chain/guard"
	"stint/chain/router"
	"stint/fleet/eventual"
	"stint/fleet/lease"
	"stint/fleet/quota"
	"stint/store/redis"
)

// This file wires the chain: what stands between the limiter and where counts are kept, each a
// stint.Store around the next one. docs/architecture.md shows which takes pass what.

// openServer opens the server at a URL, and what stands before it.
func (a *App) openServer(s *server, url string) (err error) {
	c := &a.config
	s.shared, err = redis.Open(url, redis.Options{Namespace: c.Namespace})
	if err != nil {
		return err
	}
	s.guarded = guard.New(s.shared, guard.Options{
		Timeout: c.StoreTimeout, Local: a.stores.memory, Server: s.shared.Server, OnChange: func(now guard.Status) { a.serverChanged(s, now) },
	})
	s.own = eventual.New(s.guarded, eventual.Options{Interval: c.SyncInterval, Budget: c.Memory, Part: s.shared.Part})
	if c.RememberRefusals {
		s.recall = a.remember(s)
	}
	s.leases = lease.New(s.strict(), lease.Options{Part: s.shared.Part})
	s.shares = quota.New(s.leases, quota.Options{})
	return nil
}

// strict returns the store that decides at the server.
func (s *server) strict() stint.Store {
	if s.recall != nil {
		return s.recall
	}
	return s.guarded
}

// routes are the ways to the server.
func (s *server) routes() router.Stores {
	return router.Stores{Strict: s.strict(), Asks: s.shares, Eventual: s.own}
}

// routes are the ways to where counts are kept.
func (s *stores) routes() router.Stores {
	switch {
	case s.placed != nil:
		return router.Stores{Asks: s.placed}
	case len(s.servers) > 0:
		return s.servers[0].routes()
	}
	return router.Stores{Asks: s.memory}
}

// shared returns the chain without gossip.
func (s *stores) shared() stint.Store { return router.New(s.routes()) }

// chain returns the whole chain.
func (s *stores) chain() stint.Store {
	routes := s.routes()
	routes.Gossip = s.gossip
	return router.New(routes)
}
