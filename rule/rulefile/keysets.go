package rulefile

import (
	"net/http"

	"stint/rule"
	"stint/rule/action"
	"stint/rule/token"
)

// KeySets keeps the key sets (JWKS) that tables name by their address: it fetches
// them in the background, at once, every 15 minutes, and when a token bears the id of
// a key that is not known, then at most once a minute. An address that is down keeps
// the keys that came from it last. No request ever waits for a fetch: until the first
// one succeeds, and without a KeySets at all, no token of that address is an
// identity.
//
// It is safe for concurrent use. Close ends it.
type KeySets struct{ fetcher *token.Fetcher }

// KeySetOptions say how key sets are fetched. The zero value is good for most.
type KeySetOptions struct {
	// Transport carries the requests. Nil: one that verifies servers by the authorities
	// of the system, and goes through the proxy that the environment names. Each fetch
	// ends within 10 s, however slow the transport.
	Transport http.RoundTripper

	// Report is told of each fetch: nil where it succeeded, else why it failed, or
	// which keys of it were passed over because they are broken. It must not block.
	// Nil: nobody is told.
	Report func(address string, err error)
}

// NewKeySets returns a KeySets that fetches nothing yet.
func NewKeySets(o KeySetOptions) *KeySets {
	return &KeySets{token.NewFetcher(token.FetchOptions(o))}
}

// Use fetches the key sets of t, and ends with those that only the table before
// named. Say it before t is put in force: what was fetched for the table before is
// known to t at once.
func (k *KeySets) Use(t *rule.Table) { k.fetcher.Use(addresses(t)) }

// Close ends all fetches and returns once nothing runs any more. Tables keep the keys
// that they have; Use does nothing after it.
func (k *KeySets) Close() { k.fetcher.Close() }

// addresses returns where the key sets of a table are fetched from.
func addresses(t *rule.Table) (all []*token.Address) {
	var verifiers []action.Verifier
	for _, d := range t.Domains() {
		for _, h := range d.HTTP() {
			verifiers = h.Actions.Verifiers(verifiers)
		}
	}
	for _, v := range verifiers {
		if v, ok := v.(*token.Verifier); ok && v.Address() != nil {
			all = append(all, v.Address())
		}
	}
	return all
}
