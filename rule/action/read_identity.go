package action

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"stint/internal/strictyaml"
)

func readCookie(v strictyaml.Value, a *action) {
	name, secret := "", true
	a.key = ""
	a.object(v, strictyaml.Words{
		"name":           func(v strictyaml.Value) { name = cookieName(v) },
		"hashed":         func(v strictyaml.Value) { secret = v.Bool() },
		"skip_if_absent": func(v strictyaml.Value) { a.optional = v.Bool() },
	})
	a.need(v, "name", name)
	a.need(v, "descriptor_key", a.key)
	a.reads = "cookie " + name
	if a.value = cookie(name); secret {
		a.value, a.hashed = hashed(a.value), true
	}
}

// cookieName reads the name of a cookie and reports an invalid one.
func cookieName(v strictyaml.Value) string {
	name := v.NonEmpty()
	if name != "" && (&http.Cookie{Name: name, Value: "x"}).Valid() != nil {
		v.Fail(fmt.Sprintf("name: %q is not a valid cookie name", name), "write letters, digits, - and _")
	}
	return name
}

// readPlain returns the reader of an action without members of its own.
func readPlain(value func(Attributes) (string, bool)) func(strictyaml.Value, *action) {
	return func(v strictyaml.Value, a *action) {
		a.value = value
		a.object(v, strictyaml.Words{"skip_if_absent": func(v strictyaml.Value) { a.optional = v.Bool() }})
	}
}

// readIdentity reads identity: its key is user by default, as that of the subjects of records.
func readIdentity(v strictyaml.Value, a *action) {
	a.key, a.value, a.authenticated = defaultSubject, identity, true
	a.reads = "identity that authentication proved"
	a.object(v, strictyaml.Words{"skip_if_absent": func(v strictyaml.Value) { a.optional = v.Bool() }})
}

func readAPIKey(v strictyaml.Value, a *action) {
	inHeader, inQuery := "", ""
	var from *strictyaml.Value
	r, said := new(recordedKey), map[string]strictyaml.Value{}
	a.object(v, strictyaml.Words{
		"header_name":          func(v strictyaml.Value) { inHeader = HeaderName(v) },
		"query_parameter_name": func(v strictyaml.Value) { inQuery = v.NonEmpty() },
		"skip_if_absent":       func(v strictyaml.Value) { a.optional = v.Bool() },
		"from":                 func(v strictyaml.Value) { from = &v },
		"plan_key":             func(v strictyaml.Value) { said["plan_key"], r.planKey = v, v.NonEmpty() },
		"invalid": func(v strictyaml.Value) {
			said["invalid"] = v
			i, _ := v.OneOf("skip", "deny")
			r.deny = i == 1
		},
	})
	if inHeader == "" && inQuery == "" && (v.IsObject() || v.IsNull()) {
		v.Fail("api_key without a place", "add `header_name:` or `query_parameter_name:`, which has the key")
	}
	r.read = apiKey(inHeader, inQuery)
	readRecorded(from, said, r, a)
}

func readCertificate(v strictyaml.Value, a *action) {
	part := parts["fingerprint"]
	a.object(v, strictyaml.Words{
		"part": func(v strictyaml.Value) {
			known := parts[v.Text()]
			if known == nil {
				v.Fail(fmt.Sprintf("part: unknown word %q", v.Text()), "write common_name, san_uri or fingerprint")
				return
			}
			part = known
		},
		"skip_if_absent": func(v strictyaml.Value) { a.optional = v.Bool() },
	})
	a.value = certificate(part)
}

func readBearerClaim(v strictyaml.Value, a *action) {
	claim := "sub"
	var terms TokenTerms
	var keys *strictyaml.Value
	a.object(v, strictyaml.Words{
		"claim":          func(v strictyaml.Value) { claim = v.NonEmpty() },
		"keys":           func(v strictyaml.Value) { keys = &v },
		"allow_http":     func(v strictyaml.Value) { terms.PlainHTTP = v.Bool() },
		"issuer":         func(v strictyaml.Value) { terms.Issuer = v.NonEmpty() },
		"audience":       func(v strictyaml.Value) { terms.Audience = v.NonEmpty() },
		"skip_if_absent": func(v strictyaml.Value) { a.optional = v.Bool() },
	})
	if keys == nil {
		a.need(v, "keys", "")
		return
	}
	if keys.NonEmpty() == "" {
		return
	}
	if a.verifier = a.outside.Verifier(*keys, terms); a.verifier != nil {
		a.value = bearerClaim(a.verifier, claim)
	}
}

// readFirstOf reads alternatives; the first one with a value makes the entry.
func readFirstOf(v strictyaml.Value, a *action) {
	if !v.IsList() {
		v.Fail("first_of is not a list", "write first_of: [{basic_auth_user: {}}, {remote_address: {}}]")
		return
	}
	for _, element := range v.List() {
		one, ok := readAction(element, a.paths, a.outside)
		if !ok {
			continue
		}
		for _, key := range one.keys() {
			if slices.Contains(a.keys(), key) {
				element.Fail(fmt.Sprintf("two actions of first_of have the key %s", key),
					"give each a descriptor_key of its own, so that a value of one never spends the bucket of another")
			}
		}
		if one.record != nil && one.record.planKey != "" {
			element.Fail("plan_key inside first_of", "remove it: first_of makes one entry")
		}
		if one.optional {
			element.Fail("skip_if_absent inside first_of", "remove it: if one action has no value, the next one is used")
		}
		a.first = append(a.first, one)
	}
	if len(v.List()) < 2 {
		v.Fail("first_of with fewer than two actions", "write first_of: [{basic_auth_user: {}}, {remote_address: {}}]")
	}
}

// keys returns the possible keys of the entry.
func (a *action) keys() []string {
	if a.value != nil || a.ofPath != nil {
		return []string{a.key}
	}
	var all []string
	for i := range a.first {
		all = append(all, a.first[i].keys()...)
	}
	return all
}

// describeFirst returns the text of first_of.
func describeFirst(list []action) string {
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].String()
	}
	return "first of (" + strings.Join(names, ", ") + ")"
}
