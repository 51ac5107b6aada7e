package rulefile

import (
	"net/http"

	"stint/rule"
	"stint/rule/action"
	"stint/rule/token"
)

// KeySets fetches the key sets (JWKS) that tables name by address. It fetches in the background:
// at once, every 15 minutes, and when a token has an unknown key id, but then at most once a
// minute. If an address fails, its last keys stay in use. Requests never wait for a fetch: until
// the first fetch succeeds, and without a KeySets, no token of that address is accepted.
//
// It is safe for concurrent use. Close stops it.
type KeySets struct{ fetcher *token.Fetcher }

// KeySetOptions configures how key sets are fetched. The zero value suits most programs.
type KeySetOptions struct {
	// Transport sends the requests. Nil: one that verifies servers by the system's authorities
	// and uses the proxy of the environment. Each fetch ends within 10 s, however slow the
	// transport is.
	Transport http.RoundTripper

	// Report is called after each fetch: with nil if it succeeded, else with the reason, or with
	// the keys that were skipped because they are broken. It must not block. Nil: no reports.
	Report func(address string, err error)
}

// NewKeySets returns a KeySets that fetches nothing yet.
func NewKeySets(o KeySetOptions) *KeySets {
	return &KeySets{token.NewFetcher(token.FetchOptions(o))}
}

// Use fetches the key sets of t from now on and stops fetching those that only the previous table
// named. Call it before t is used: keys that are known already are available to t at once.
func (k *KeySets) Use(t *rule.Table) { k.fetcher.Use(addresses(t)) }

// Close stops all fetches and returns when they have ended. Tables keep the keys that they have.
// Use does nothing after Close.
func (k *KeySets) Close() { k.fetcher.Close() }

// addresses returns the addresses of the key sets of a table.
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
