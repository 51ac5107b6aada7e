package app

import (
	"context"
	"errors"

	"stint"
	"stint/guard"
	"stint/store/memory"
	"stint/store/redis"
	"stint/store/refusals"
	"stint/telemetry"
)

// stores are where counts are kept: in memory, or in a store on the network behind a
// guard. Then memory holds what rules let pass by themselves while that is away.
type stores struct {
	memory  *memory.Store
	shared  *redis.Store
	guarded *guard.Store
	recall  *refusals.Store // remembers what that refuses; nil: nothing does
}

// openStore opens the store that the configuration asks for.
func (a *App) openStore() (err error) {
	c := &a.config
	if c.Store == "memory" {
		a.stores.memory, err = newStore(c, a.log)
		return err
	}
	a.stores.shared, err = redis.Open(c.Store, redis.Options{Namespace: c.Namespace})
	if problem, ok := errors.AsType[*redis.ConfigError](err); ok {
		return c.at("store", problem.Problem, problem.Hint)
	}
	if err != nil {
		return err
	}
	a.stores.memory = memory.New(memory.Options{Budget: c.Memory})
	a.stores.guarded = guard.New(a.stores.shared, guard.Options{
		Timeout: c.StoreTimeout, Local: a.stores.memory, OnChange: a.storeChanged,
	})
	if c.RememberRefusals {
		a.stores.recall = a.remember(a.stores.guarded, a.stores.shared)
	}
	return nil
}

// asked returns the store that decides.
func (s *stores) asked() stint.Store {
	if s.recall != nil {
		return s.recall
	}
	if s.guarded != nil {
		return s.guarded
	}
	return s.memory
}

// close ends what the store has open.
func (s *stores) close() {
	if s.shared != nil {
		s.shared.Close()
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

// sharedStats are the numbers of a store on the network, as metrics show them.
func (s *stores) sharedStats() telemetry.SharedStats {
	g := s.guarded.Status()
	return telemetry.SharedStats{Away: g.Away, Timeouts: g.Timeouts, Errors: g.Errors, Spared: g.Spared}
}

// warnOfStore logs what is odd about the store.
func (a *App) warnOfStore(ctx context.Context) {
	warnings, err := a.stores.shared.Warnings(ctx)
	if err != nil {
		a.log.Debug("cannot look at the settings of the store", "problem", err)
	}
	for _, w := range warnings {
		a.log.Warn("the store may forget limits", "problem", w.Problem, "hint", w.Hint)
	}
}

// redisHint says what to do about an error of the store.
func redisHint(err error) string {
	if problem, ok := errors.AsType[*redis.Error](err); ok {
		return problem.Hint
	}
	return ""
}

// storeName names the store without a password.
func (c *Config) storeName() string {
	if redis.IsURL(c.Store) {
		return redis.Redact(c.Store)
	}
	return c.Store
}

func checkStore(s string) error {
	switch {
	case s == "memory":
		return nil
	case redis.IsURL(s):
		if problem, ok := errors.AsType[*redis.ConfigError](redis.CheckURL(s)); ok {
			return &hinted{problem.Problem, problem.Hint}
		}
		return nil
	}
	// It is not repeated as a whole: it may hold a password.
	return &hinted{"unknown store " + firstPart(s), "use memory, or redis://HOST:PORT"}
}

func checkNamespace(s string) error {
	if problem, ok := errors.AsType[*redis.ConfigError](redis.CheckNamespace(s)); ok {
		return &hinted{problem.Problem, problem.Hint}
	}
	return nil
}
