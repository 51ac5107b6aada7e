package app

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	"stint/internal/config"
	"stint/internal/web"
)

// loadCerts reads the certificates of all listeners.
func (a *App) loadCerts() error {
	a.certs = make(map[string]*web.Certs)
	for _, e := range a.config.Encrypted() {
		if e.Address == "" || !e.Files.Given() {
			continue
		}
		loaded, err := web.LoadCerts(*e.Files, e.Protocol)
		if problem, ok := errors.AsType[*web.CertError](err); ok {
			fault := a.config.Fault(e.Listener+"-tls-"+e.Files.Which(problem.File), problem.Error(), problem.Hint)
			fault.Err = err
			return fault
		}
		if err != nil {
			return err
		}
		a.certs[e.Listener] = loaded
		a.metrics.Certificate(e.Listener, loaded.Expiry)
	}
	return nil
}

// tls returns the TLS configuration of a listener; nil: it is not encrypted.
func (a *App) tls(listener string) *tls.Config {
	if loaded := a.certs[listener]; loaded != nil {
		return loaded.Config()
	}
	return nil
}

// watchCerts reads the certificates again whenever their files change.
func (a *App) watchCerts(ctx context.Context) {
	var paths []string
	for _, loaded := range a.certs {
		paths = append(paths, loaded.Paths()...)
	}
	a.follow(ctx, "certificates", config.NewWatcher, paths, func(why string) []string {
		// renew has logged the error and kept the old certificates.
		_ = a.retrying(a.renew(why))
		return nil
	})
}

// renew reads the certificates again. It logs errors of a listener's certificates and keeps the old
// ones.
func (a *App) renew(why string) error {
	var failed []error
	for listener, loaded := range a.certs {
		changed, err := loaded.Reload()
		if problem, ok := errors.AsType[*web.CertError](err); ok {
			a.log.Error("certificates refused: keeping the old ones", "listener", listener, "reason", why, "error", problem, "hint", problem.Hint)
		} else if changed {
			a.log.Info("certificates loaded", "listener", listener, "reason", why, "expiry", loaded.Expiry().UTC().Format(time.RFC3339))
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}
