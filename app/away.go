package app

import (
	"context"
	"sync"
	"time"

	"stint"
	"stint/guard"
)

const (
	// lookEvery is how often a store on the network is asked whether it is there.
	lookEvery = time.Second

	// lookTimeout is how long it may take to answer that, its first connection included.
	lookTimeout = time.Second
)

// storeState is whether the store on the network can be used. Two find out: who looks
// at it now and then, and the guard around it, in which decisions fail.
type storeState struct {
	mu      sync.Mutex // guards what follows
	problem string     // "" while it can be used
	logged  bool       // the log's last word is that it cannot be
	seen    bool       // it could be used at some time
	spared  uint64     // what the guard spared the store when somebody last looked
}

// storeChanged notes that the store does not answer any more, so that rules decide
// without it, or that it does. To log that it is back is left to look, so that one which
// comes and goes many times a second fills no log.
func (a *App) storeChanged(s guard.Status) {
	if s.Away {
		a.storeFails(s.Err)
		return
	}
	a.storeState.mu.Lock()
	defer a.storeState.mu.Unlock()
	a.storeState.problem = ""
}

// storeFails notes what is wrong with the store, and logs it once.
func (a *App) storeFails(err error) {
	state := &a.storeState
	state.mu.Lock()
	defer state.mu.Unlock()
	if !state.logged {
		a.log.Error("the store cannot be used; each rule is answered by its on_store_failure",
			"store", a.config.storeName(), "problem", err, "hint", redisHint(err))
	}
	state.problem, state.logged = err.Error(), true
}

// look asks the store on the network whether it is there. That it can be used again is
// noted when the guard says so too. The first time its settings are looked at.
func (a *App) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if err := a.stores.shared.Ping(ctx); err != nil {
		a.storeFails(err)
		return
	}
	if a.tryStore(ctx); a.stores.guarded.Status().Away {
		return
	}
	state := &a.storeState
	state.mu.Lock()
	back, first := state.logged, !state.seen
	state.problem, state.logged, state.seen = "", false, true
	state.mu.Unlock()
	if back {
		a.log.Info("the store is back", "store", a.config.storeName())
	}
	if back || first {
		a.warnOfStore(ctx)
	}
}

// tryStore lets the guard try whether the store is back if nobody else does.
func (a *App) tryStore(ctx context.Context) {
	status, state := a.stores.guarded.Status(), &a.storeState
	state.mu.Lock()
	idle := status.Away && status.Spared == state.spared
	state.spared = status.Spared
	state.mu.Unlock()
	if idle {
		call := stint.Call{Takes: []stint.Take{{Key: "look", Limit: looked}}}
		_ = a.stores.guarded.Decide(ctx, &call) // the guard knows what came of it
	}
}

// looked is the limit of a peek that nobody is charged for.
var looked = stint.MustLimit(stint.Spec{Requests: 1, Per: time.Minute})

// storeProblem is what /readyz says is wrong with the store.
func (a *App) storeProblem() string {
	a.storeState.mu.Lock()
	defer a.storeState.mu.Unlock()
	return a.storeState.problem
}
