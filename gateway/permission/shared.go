package permission

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"

	"stint"
	"stint/gateway/service"
	"stint/internal/logging"
	"stint/store/redis"
	"stint/store/redis/connect"
)

// shared are the counts of all gateways with one Redis. It connects at the first question.
type shared struct {
	url, namespace string
	timeout        time.Duration // of a question

	opening  sync.Once
	store    *redis.Store // nil: not opened
	err      error        // why it cannot be
	failures logging.FailureLog
}

// sharedTimeout bounds a question to Redis, for which a handshake waits.
const sharedTimeout = time.Second

func newShared(url, namespace string) *shared {
	return &shared{url: url, namespace: namespace, timeout: sharedTimeout, failures: logging.FailureLog{
		Log: slog.New(slog.DiscardHandler), Event: "cannot ask the store about certificates: counting those of this process alone", Hint: "see the store",
	}}
}

// provisionShared finds the counts that gateways share: in the store of the app, if that is a Redis.
func (p *Permission) provisionShared(ctx caddy.Context) error {
	if _, err := ctx.AppIfConfigured(service.Name); errors.Is(err, caddy.ErrNotConfigured) {
		return nil
	}
	app, err := service.Running(ctx)
	if err != nil {
		return err
	}
	config := app.Config()
	if !connect.IsURL(config.Store) {
		return nil
	}
	p.sharedKey = "shared " + config.Store + "\x00" + config.Namespace
	kept, _, err := pool.LoadOrNew(p.sharedKey, func() (caddy.Destructor, error) {
		s := newShared(config.Store, config.Namespace)
		s.failures.Log = ctx.Slogger()
		return s, nil
	})
	if err != nil {
		return err
	}
	p.shared = kept.(*shared) //nolint:forcetypeassert // the only kind under such a key
	return nil
}

// decide decides a call by the counts of all gateways. If these cannot be asked, the counts of this process
// decide, which have all that it allowed.
func (p *Permission) decide(ctx context.Context, call *stint.Call) error {
	own := stint.Call{Takes: call.Takes}
	if p.shared != nil {
		err := p.shared.decide(ctx, call)
		if err == nil {
			for i := range call.Results {
				if !call.Results[i].Allowed {
					return nil
				}
			}
			return p.counts.store.Decide(ctx, &own)
		}
		p.shared.failures.Report(err)
	}
	err := p.counts.store.Decide(ctx, &own)
	call.Results = own.Results
	return err
}

func (s *shared) decide(ctx context.Context, call *stint.Call) error {
	s.opening.Do(func() {
		s.store, s.err = redis.Open(s.url, redis.Options{Namespace: s.namespace})
	})
	if s.err != nil {
		return s.err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.store.Decide(ctx, call)
}

// Destruct implements caddy.Destructor.
func (s *shared) Destruct() error {
	s.opening.Do(func() { s.err = errors.New("the configuration has ended") })
	if s.store != nil {
		s.store.Close()
	}
	return nil
}
