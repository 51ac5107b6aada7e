package stores

import (
	"context"

	"stint/rule"
)

// openSecret reads the secret, or makes one.
func (st *Stores) openSecret() error {
	secret, made, err := st.config.Secret(st.state)
	st.newSecret = made
	if secret != nil {
		st.secret = rule.NewKeySecret(secret)
	}
	return err
}

// Secret returns the secret that hashes values in keys; nil if there is none.
func (st *Stores) Secret() *rule.KeySecret { return st.secret }

// KeepSecret writes a new secret beside the state file.
func (st *Stores) KeepSecret() error {
	kept, err := st.newSecret.Keep(st.config)
	if kept {
		st.log.Info("namespace secret made; counts of api_key and cookie values begin anew, as their keys are hashed under it", "file", st.newSecret.File)
	}
	return err
}

// checkSecret compares the secret with that of the other nodes, whose fingerprint is in the server.
// With keep it stores its own fingerprint if there is none. If they differ it ends this process,
// which would count apart from the others.
func (st *Stores) checkSecret(ctx context.Context, s *server, keep bool) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	own, left := "", ""
	if st.secret != nil {
		own = st.secret.Fingerprint()
	}
	if keep {
		left = own
	}
	kept, first, err := s.keepSecret(ctx, left)
	if err != nil {
		if !s.warned.Swap(true) {
			st.log.Warn("cannot compare the namespace secret with that of the store; will try again", "store", s.name, "error", err,
				"hint", "let this user GET and SET the key "+st.config.Namespace+":secret")
		}
		return
	}
	s.compared.Store(keep)
	switch {
	case kept == "" && !keep:
	case first:
		st.log.Info("namespace secret is new to the store; counts of api_key and cookie values begin anew, as their keys are hashed under it", "store", s.name)
	case kept == own:
	case own == "":
		st.fail(st.config.Fault("namespace-secret-file", "the keys in "+s.name+" are hashed under a namespace secret, and this node has none",
			"give this node the file that the others have; or stop all nodes and delete the key "+st.config.Namespace+":secret, then counts of api_key and cookie values begin anew"))
	default:
		st.fail(st.config.Fault("namespace-secret-file", "another namespace secret is in use in "+s.name,
			"give all nodes the same file; to change the secret stop all nodes and delete the key "+st.config.Namespace+":secret, then counts of api_key and cookie values begin anew"))
	}
}

// fail ends the service, or prevents its start.
func (st *Stores) fail(err error) {
	st.refused.Store(true)
	st.options.OnFailure(err)
}

// warnOfSecret logs that keys contain hashes whose values can be guessed.
func (st *Stores) warnOfSecret(table *rule.Table) {
	if st.secret == nil && table.HoldsSecrets() {
		st.log.Warn("keys hold api_key and cookie values as their SHA-256: who reads the store can try out short ones",
			"hint", "give every node the same --namespace-secret-file; counts of these keys then begin anew once")
	}
}
