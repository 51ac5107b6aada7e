package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"stint"
	"stint/store/memory"
	"stint/store/redis"
	"stint/telemetry"
)

const (
	// lookEvery is how often a store on the network is asked whether it is there.
	lookEvery = time.Second

	// lookTimeout is how long it may take to answer that, its first connection included.
	lookTimeout = time.Second
)

// stores are where counts are kept: one of the two.
type stores struct {
	memory *memory.Store
	shared *redis.Store
}

// openStore returns the store that the configuration asks for.
func openStore(c *Config, log *slog.Logger) (stores, error) {
	if c.Store == "memory" {
		m, err := newStore(c, log)
		return stores{memory: m}, err
	}
	shared, err := redis.Open(c.Store, redis.Options{Namespace: c.Namespace})
	if problem, ok := errors.AsType[*redis.ConfigError](err); ok {
		return stores{}, c.at("store", problem.Problem, problem.Hint)
	}
	return stores{shared: shared}, err
}

// asked returns the store that decides.
func (s *stores) asked(c *Config) stint.Store {
	if s.memory != nil {
		return s.memory
	}
	return timely{s.shared, c.StoreTimeout}
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

// timely gives each call of a store on the network a deadline. None is an hour.
type timely struct {
	stint.Store
	timeout time.Duration
}

// Decide asks the store, see stint.Store.
func (t timely) Decide(ctx context.Context, call *stint.Call) error {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	return t.Store.Decide(ctx, call)
}

// look asks the store on the network whether it is there, for /readyz and the log; the
// first time it waits for the answer, and looks at its settings.
func (a *App) look(ctx context.Context, first bool) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	err := a.stores.shared.Ping(ctx)
	text := ""
	if err != nil {
		text = err.Error()
	}
	before := a.storeError.Swap(&text)
	switch {
	case err != nil && (first || before == nil || *before == ""):
		a.log.Error("the store cannot be used", "store", a.config.storeName(), "problem", text, "hint", redisHint(err))
	case err == nil && before != nil && *before != "":
		a.log.Info("the store is back", "store", a.config.storeName())
	}
	if err == nil && (first || before != nil && *before != "") {
		a.warnOfStore(ctx)
	}
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
