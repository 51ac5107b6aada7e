package app

import (
	"context"

	"stint/rule"
)

// keepSecret writes a new secret beside the state file.
func (a *App) keepSecret() error {
	kept, err := a.newSecret.Keep(&a.config)
	if kept {
		a.log.Info("namespace secret made; counts of api_key and cookie values begin anew, as their keys are hashed under it", "file", a.newSecret.File)
	}
	return err
}

// checkSecret compares the secret with that of the other nodes, whose fingerprint is in the server.
// With keep it stores its own fingerprint if there is none. If they differ it ends this process,
// which would count apart from the others.
func (a *App) checkSecret(ctx context.Context, s *server, keep bool) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	own, left := "", ""
	if a.secret != nil {
		own = a.secret.Fingerprint()
	}
	if keep {
		left = own
	}
	kept, first, err := s.shared.KeepSecret(ctx, left)
	if err != nil {
		if !s.warned.Swap(true) {
			a.log.Warn("cannot compare the namespace secret with that of the store; will try again", "store", s.name, "error", err,
				"hint", "let this user GET and SET the key "+a.config.Namespace+":secret")
		}
		return
	}
	s.compared.Store(keep)
	switch {
	case kept == "" && !keep:
	case first:
		a.log.Info("namespace secret is new to the store; counts of api_key and cookie values begin anew, as their keys are hashed under it", "store", s.name)
	case kept == own:
	case own == "":
		a.failService(a.config.Fault("namespace-secret-file", "the keys in "+s.name+" are hashed under a namespace secret, and this node has none",
			"give this node the file that the others have; or stop all nodes and delete the key "+a.config.Namespace+":secret, then counts of api_key and cookie values begin anew"))
	default:
		a.failService(a.config.Fault("namespace-secret-file", "another namespace secret is in use in "+s.name,
			"give all nodes the same file; to change the secret stop all nodes and delete the key "+a.config.Namespace+":secret, then counts of api_key and cookie values begin anew"))
	}
}

// failService ends the service, or prevents its start.
func (a *App) failService(err error) {
	select {
	case a.failed <- err:
	default: // the service ends already
	}
}

// startError returns why the service must not start, nil if it may.
func (a *App) startError() error {
	select {
	case err := <-a.failed:
		return err
	default:
		return nil
	}
}

// warnOfSecret logs that keys contain hashes whose values can be guessed.
func (a *App) warnOfSecret(table *rule.Table) {
	if a.secret == nil && table.HoldsSecrets() {
		a.log.Warn("keys hold api_key and cookie values as their SHA-256: who reads the store can try out short ones",
			"hint", "give every node the same --namespace-secret-file; counts of these keys then begin anew once")
	}
}
