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

// This file builds the chain: the stint.Stores between the limiter and the counts, each around the
// next one. docs/architecture.md shows which takes pass through which.

// openServer opens the server at a URL, and builds the stores before it.
func (a *App) openServer(s *server, url string) (err error) {
	c := &a.config
	s.shared, err = redis.Open(url, redis.Options{Namespace: c.Namespace})
	if err != nil {
		return err
	}
	s.guarded = guard.New(s.shared, guard.Options{
		Timeout: c.StoreTimeout, Local: a.stores.memory, Server: s.shared.Server, OnChange: func(now guard.Status) { a.serverChanged(s, now) },
	})
	s.eventual = eventual.New(s.guarded, eventual.Options{Interval: c.SyncInterval, Budget: c.Memory, Part: s.shared.Part})
	if c.RememberRefusals {
		s.denials = a.remember(s)
	}
	s.leases = lease.New(s.strict(), lease.Options{Part: s.shared.Part})
	s.shares = quota.New(s.leases, quota.Options{})
	return nil
}

// strict returns the store for strict takes of the server.
func (s *server) strict() stint.Store {
	if s.denials != nil {
		return s.denials
	}
	return s.guarded
}

// routes returns the stores of a server's router.
func (s *server) routes() router.Stores {
	return router.Stores{Strict: s.strict(), Asks: s.shares, Eventual: s.eventual}
}

// routes returns the stores of the process's router, without gossip.
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
