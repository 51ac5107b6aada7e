package service

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"stint/app"
	"stint/app/settings"
	"stint/telemetry"
)

// pool has the running services by their keys, and active is their number.
var (
	pool   = caddy.NewUsagePool()
	active atomic.Int32
)

// shared is a running service that configurations share.
type shared struct {
	key        string
	service    *app.App
	admin      http.Handler
	collectors *telemetry.Collectors
	log        *logs

	mu    sync.Mutex // guards users
	users []*App     // the last one has the rules in force
	ended chan struct{}
}

var _ caddy.Destructor = (*shared)(nil)

// join returns the service of a configuration, and starts it if there is none.
func join(a *App) (*shared, error) {
	key := a.key()
	found, loaded, err := pool.LoadOrNew(key, func() (caddy.Destructor, error) { return start(key, a) })
	if err != nil {
		return nil, err
	}
	s := found.(*shared)
	if err := s.use(a, loaded); err != nil {
		_, _ = pool.Delete(key) // the error of a stop is nil
		return nil, err
	}
	return s, nil
}

// start starts a service.
func start(key string, a *App) (*shared, error) {
	s := &shared{key: key, collectors: new(telemetry.Collectors), log: newLogs(a), ended: make(chan struct{})}
	config := a.config
	config.Log, config.Collectors = slog.New(s.log), s.collectors
	var err error
	if s.service, err = app.New(config); err != nil {
		return nil, inUse(a, err)
	}
	if err := s.service.Start(a.ctx); err != nil {
		return nil, err
	}
	active.Add(1)
	s.admin = s.service.Admin()
	go s.watch()
	return s, nil
}

// watch logs why the service should not continue.
func (s *shared) watch() {
	for {
		select {
		case err := <-s.service.Failed():
			fault := Explain(err)
			slog.New(s.log).Error("counts of this gateway are not to be relied on: stop it", "error", fault.Error())
		case <-s.ended:
			return
		}
	}
}

// use puts the rules of a configuration in force. running is false if the service has just read them.
func (s *shared) use(a *App, running bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log.use(a)
	if running {
		if err := s.service.UseRules(a.config.Rules, "configuration of Caddy"); err != nil {
			s.logLast()
			return err
		}
	}
	s.users = append(s.users, a)
	return nil
}

// leave ends the use by a configuration. If its rules were in force, as it failed to start, those of
// the one before return.
func (s *shared) leave(a *App) error {
	s.mu.Lock()
	n := slices.Index(s.users, a)
	last := n == len(s.users)-1
	s.users = slices.Delete(s.users, n, n+1)
	if last && n > 0 {
		s.logLast()
		// UseRules has logged an error.
		_ = s.service.UseRules(s.users[n-1].config.Rules, "the new configuration of Caddy was not started")
	}
	s.mu.Unlock()
	_, err := pool.Delete(s.key)
	return err
}

// logLast makes the service log to the log of the last user.
func (s *shared) logLast() {
	if n := len(s.users); n > 0 {
		s.log.use(s.users[n-1])
	}
}

// stopTimeout bounds the end of a service.
const stopTimeout = 10 * time.Second

// Destruct stops the service.
func (s *shared) Destruct() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	close(s.ended)
	s.service.Stop(ctx)
	active.Add(-1)
	return nil
}

// inUse explains the error of a service whose files another service of this process holds.
func inUse(a *App, err error) error {
	fault, ok := errors.AsType[*settings.Error](err)
	if !ok || active.Load() == 0 {
		return err
	}
	for _, name := range []string{"state", "records", "records-copy", "catalog-db"} {
		if len(a.Settings[name]) > 0 && fault.Where == a.place(name) {
			fault.Hint = "settings other than rules cannot change while the running configuration holds this file: restart the gateway, or give another file"
		}
	}
	return err
}
