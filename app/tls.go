package app

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	"stint/internal/config"
	"stint/internal/web"
)

// tlsSettings are those of the files of a listener.
func tlsSettings(listener string, f *web.CertFiles) []Setting {
	return []Setting{
		{listener + "-tls-cert", "`FILE` of the certificate of " + listener + ", read again when it changes", config.Path(&f.Cert)},
		{listener + "-tls-key", "`FILE` of its private key", config.Path(&f.Key)},
		{listener + "-tls-client-ca", "`FILE` of the certificates that may sign those of " + listener + " clients", config.Path(&f.ClientCA)},
		{listener + "-tls-client-name", "DNS `NAME` that the certificate of a client of " + listener + " must be for", config.Text(&f.ClientName, nil)},
	}
}

// encrypted are the listeners that can be encrypted.
func (c *Config) encrypted() []encrypted {
	return []encrypted{
		{"http", c.HTTP, &c.HTTPTLS, "http/1.1"}, {"admin", c.Admin, &c.AdminTLS, "http/1.1"}, {"grpc", c.GRPC, &c.RLS.TLS, "h2"},
	}
}

// encrypted is a listener that can be encrypted.
type encrypted struct {
	listener, address string
	files             *web.CertFiles
	protocol          string
}

// checkTLS returns what no file shows by itself.
func (c *Config) checkTLS() error {
	for _, e := range c.encrypted() {
		switch which, problem := e.files.Check(); which {
		case "":
		case "client-name":
			return c.at(e.listener+"-tls-client-name", problem, "give "+e.listener+"-tls-client-ca too")
		default:
			return c.at(e.listener+"-tls-"+which, problem, "give "+e.listener+"-tls-cert and "+e.listener+"-tls-key, or neither")
		}
	}
	return nil
}

// loadCerts reads the certificates of all listeners.
func (a *App) loadCerts() error {
	a.certs = make(map[string]*web.Certs)
	for _, e := range a.config.encrypted() {
		if e.address == "" || !e.files.Given() {
			continue
		}
		loaded, err := web.LoadCerts(*e.files, e.protocol)
		if problem, ok := errors.AsType[*web.CertError](err); ok {
			fault := a.config.at(e.listener+"-tls-"+e.files.Which(problem.File), problem.Error(), problem.Hint)
			fault.Err = err
			return fault
		}
		if err != nil {
			return err
		}
		a.certs[e.listener] = loaded
		a.metrics.Certificate(e.listener, loaded.Expiry)
	}
	return nil
}

// tls returns how connections of a listener are encrypted; nil: they are not.
func (a *App) tls(listener string) *tls.Config {
	if loaded := a.certs[listener]; loaded != nil {
		return loaded.Config()
	}
	return nil
}

// watchCerts reads the certificates again whenever they change.
func (a *App) watchCerts(ctx context.Context) {
	var paths []string
	for _, loaded := range a.certs {
		paths = append(paths, loaded.Paths()...)
	}
	a.follow(ctx, "certificates", config.NewWatcher, paths, func(why string) []string {
		// The error has been logged, and the old certificates stay.
		_ = a.retrying(a.renew(why))
		return nil
	})
}

// renew reads the certificates again. What is wrong with those of a listener is logged, and
// those before stay.
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
