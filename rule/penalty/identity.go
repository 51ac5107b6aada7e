package penalty

import (
	"slices"
	"strings"

	"stint/rule"
	"stint/rule/action"
)

// Identity is what the open entries of a rule tell of who sends a request: whether one is an
// address, an account, or a device, and whether one is anything else that a client has, such as an
// API key. An entry for what a request asks for, such as its path, is none of these.
type Identity struct{ Address, Account, Device, Other bool }

// Keys by which callers name these, where no action of the http section makes the entry.
var (
	addressKeys = []string{"remote_address", "masked_remote_address", "address", "client_address", "source_address", "ip", "ip_address", "client_ip", "remote_ip", "source_ip"}
	accountKeys = []string{"user", "user_id", "user_name", "username", "account", "account_id", "login", "email", "mail", "name", "customer", "customer_id", "member", "basic_auth_user"}
	deviceKeys  = []string{"known", "device", "device_id", "fingerprint", "tls_client_certificate"}
	wishKeys    = []string{"path", "route", "method", "host", "uri", "url", "request_path", "request_uri", "query", "query_string", "user_agent", "user-agent", "referer", "generic_key"}
)

// IdentityOf returns the identity of a rule's open entries. http are the elements that describe
// requests of its domain; the action that makes an entry decides before the entry's key.
func IdentityOf(r *rule.Rule, http []rule.HTTPLimit) Identity {
	var id Identity
	for _, l := range r.Path {
		if l.Varies() {
			id.add(l.Key, http)
		}
	}
	return id
}

// add adds an open entry with that key.
func (id *Identity) add(key string, http []rule.HTTPLimit) {
	known := false
	for i := range http {
		for _, p := range http[i].Actions.Parts() {
			for _, one := range append(p.First, p) {
				if one.Key == key && one.First == nil {
					id.addPart(&one)
					known = true
				}
			}
		}
	}
	if known {
		return
	}
	name := strings.ToLower(strings.ReplaceAll(key, "-", "_"))
	switch {
	case slices.Contains(addressKeys, name):
		id.Address = true
	case slices.Contains(deviceKeys, name):
		id.Device = true
	case slices.Contains(accountKeys, name):
		id.Account = true
	case !slices.Contains(wishKeys, name):
		id.Other = true
	}
}

// addPart adds an entry that an action makes. A name that a client states is an account, which others
// can state too; a secret and what is proven are the client's own.
func (id *Identity) addPart(p *action.Part) {
	switch p.Name {
	case "remote_address", "masked_remote_address":
		id.Address = true
	case "device", "tls_client_certificate":
		id.Device = true
	case "basic_auth_user", "identity":
		id.Account = true
	case "request_headers", "query_parameters":
		name := p.Reads[strings.LastIndexByte(p.Reads, ' ')+1:]
		switch {
		case slices.Contains(deviceKeys, p.Key):
			id.Device = true
		case slices.Contains(accountKeys, p.Key) || p.From == action.FromClaim && !strings.Contains(strings.ToLower(name), "key"):
			id.Account = true
		default:
			id.Other = id.Other || p.From != action.FromWish
		}
	case "cookie", "api_key", "bearer_claim":
		id.Other = true
	}
}
