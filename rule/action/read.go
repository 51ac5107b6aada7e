package action

import (
	"fmt"
	"strings"

	"stint/internal/strictyaml"
)

// actions are the readers of the actions by name. A reader returns false after it reported a fault.
var actions map[string]func(v strictyaml.Value, a *action)

func init() { // set in init to avoid an initialization cycle: the readers refer to actions
	actions = map[string]func(v strictyaml.Value, a *action){
		"remote_address":        readRemoteAddress,
		"masked_remote_address": readMaskedAddress,
		"request_headers":       readRequestHeaders,
		"query_parameters":      readQueryParameters,
		"generic_key":           readGenericKey,
		"header_value_match":    readHeaderValueMatch,
		"path":                  func(v strictyaml.Value, a *action) { a.ofPath = path; a.object(v, nil) },
		"method":                func(v strictyaml.Value, a *action) { a.value = method; a.object(v, nil) },
		"route":                 readRoute,

		"cookie":                 readCookie,
		"host":                   readPlain(host),
		"basic_auth_user":        readPlain(basicUser),
		"api_key":                readAPIKey,
		"tls_client_certificate": readCertificate,
		"bearer_claim":           readBearerClaim,
		"device":                 readDevice,
		"identity":               readIdentity,
		"first_of":               readFirstOf,
	}
}

// Known reports whether an action of that name exists.
func Known(name string) bool { return actions[name] != nil }

// Read compiles a list of actions and reports its faults. paths is how the actions read paths.
func Read(v strictyaml.Value, paths Paths, outside Outside) *List {
	l := new(List)
	for _, element := range v.List() {
		if a, ok := readAction(element, paths, outside); ok {
			l.actions = append(l.actions, a)
		}
	}
	if (v.IsList() || v.IsNull()) && len(v.List()) == 0 {
		v.Fail(v.Word()+" is empty", "add an action, such as {remote_address: {}}")
	}
	return l
}

// readAction compiles one action: an object whose only member is the name of the action.
func readAction(v strictyaml.Value, paths Paths, outside Outside) (action, bool) {
	if !v.IsObject() {
		hint := "write {NAME: {}}, such as {remote_address: {}}"
		if _, ok := actions[v.Text()]; ok {
			hint = fmt.Sprintf("write {%s: {}}", v.Text())
		}
		v.Fail("an action that is not an object", hint)
		return action{}, false
	}
	var a action
	count := 0
	words := strictyaml.Words{}
	for name, read := range actions {
		words[name] = func(v strictyaml.Value) {
			count++
			a = action{name: name, key: name, paths: paths, outside: outside}
			read(v, &a)
		}
	}
	v.Object("actions", words, actionHint)
	if count > 1 {
		v.Fail("an action with two names", "begin each action with `- `, or put each in its own braces")
	}
	a.outside = nil // would keep the whole file in memory
	return a, a.value != nil || a.ofPath != nil || a.first != nil
}

func actionHint(word string) string {
	switch word {
	case "source_cluster", "destination_cluster", "dynamic_metadata", "metadata", "extension":
		return word + " reads what only Envoy knows; let Envoy send its descriptors, and leave it out here"
	case "jwt", "claim", "bearer", "token", "jwt_claim":
		return "write bearer_claim: {claim: sub, keys: FILE}"
	case "any_of", "one_of", "coalesce", "first":
		return "write first_of: [{NAME: {}}, {NAME: {}}]"
	case "cost", "hits_addend":
		return word + " belongs beside actions"
	case "cookies":
		return "write cookie: {name: NAME, descriptor_key: KEY}"
	case "basic_auth", "user", "basic_user":
		return "write basic_auth_user: {}"
	case "client_certificate", "tls", "mtls":
		return "write tls_client_certificate: {part: common_name}"
	case "query_parameter_value_match", "remote_address_match":
		return word + " is not in this version; leave it out"
	case "header", "headers", "request_header":
		return `write request_headers: {header_name: NAME, descriptor_key: KEY}`
	case "ip", "client_ip", "address", "remote_addr":
		return "write remote_address: {}"
	case "query", "query_parameter":
		return `write query_parameters: {query_parameter_name: NAME, descriptor_key: KEY}`
	}
	return ""
}

// object reads the members of an action, and descriptor_key, which all actions have.
func (a *action) object(v strictyaml.Value, words strictyaml.Words) {
	if words == nil {
		words = strictyaml.Words{}
	}
	words["descriptor_key"] = func(v strictyaml.Value) { a.key = v.NonEmpty() }
	v.Object(a.name, words)
}

func readRemoteAddress(v strictyaml.Value, a *action) {
	a.value = network(32, 64, false)
	a.object(v, nil)
}

func readMaskedAddress(v strictyaml.Value, a *action) {
	v4, v6 := uint64(32), uint64(64)
	a.object(v, strictyaml.Words{
		"v4_prefix_mask_len": func(v strictyaml.Value) { v4 = v.Uint(32) },
		"v6_prefix_mask_len": func(v strictyaml.Value) { v6 = v.Uint(128) },
	})
	if a.value = network(int(v4), int(v6), true); v6 > 64 {
		a.narrow, a.reads = true, "address in its IPv6 /64"
	}
}

func readRequestHeaders(v strictyaml.Value, a *action) {
	name := ""
	a.key = ""
	a.object(v, strictyaml.Words{
		"header_name":    func(v strictyaml.Value) { name = HeaderName(v) },
		"skip_if_absent": func(v strictyaml.Value) { a.optional = v.Bool() },
	})
	a.need(v, "header_name", name)
	a.need(v, "descriptor_key", a.key)
	a.reads = "header " + name
	switch name {
	case ":path":
		a.ofPath = path
	case ":method":
		a.value = method
	case ":authority":
		a.value = header("Host")
	default:
		a.value = header(name)
	}
}

// HeaderName reads the name of a header. It reports a name that no request can have, and a
// pseudo-header that Attributes do not have.
func HeaderName(v strictyaml.Value) string {
	name := v.NonEmpty()
	switch {
	case name == "", headerName.MatchString(name):
	case name == ":path", name == ":method", name == ":authority":
	default:
		v.Fail(fmt.Sprintf("%s: %q is not a valid header name", v.Word(), name), "write letters, digits and dashes, or :path, :method or :authority")
	}
	return name
}

func readQueryParameters(v strictyaml.Value, a *action) {
	name := ""
	a.key = ""
	a.object(v, strictyaml.Words{
		"query_parameter_name": func(v strictyaml.Value) { name = v.NonEmpty() },
		"skip_if_absent":       func(v strictyaml.Value) { a.optional = v.Bool() },
	})
	a.need(v, "query_parameter_name", name)
	a.need(v, "descriptor_key", a.key)
	a.value, a.reads = query(name), "query parameter "+name
}

func readGenericKey(v strictyaml.Value, a *action) {
	value := ""
	a.object(v, strictyaml.Words{"descriptor_value": func(v strictyaml.Value) { value = v.NonEmpty() }})
	a.need(v, "descriptor_value", value)
	a.value, a.values = constant(value), []string{value}
}

func readHeaderValueMatch(v strictyaml.Value, a *action) {
	value, expect, ofPath := "", true, false
	var matchers []matcher
	a.key = "header_match"
	a.object(v, strictyaml.Words{
		"descriptor_value": func(v strictyaml.Value) { value = v.NonEmpty() },
		"expect_match":     func(v strictyaml.Value) { expect = v.Bool() },
		"headers": func(v strictyaml.Value) {
			for _, element := range v.List() {
				m := readMatcher(element)
				ofPath = ofPath || strings.EqualFold(m.name, ":path")
				matchers = append(matchers, m)
			}
		},
	})
	a.need(v, "descriptor_value", value)
	if len(matchers) == 0 && (v.IsObject() || v.IsNull()) {
		v.Fail("header_value_match without headers", "add a line such as `headers: [{name: x-plan, exact: free}]`")
	}
	a.values = []string{value}
	for _, m := range matchers {
		a.reads = "header " + m.name
	}
	read := matched(matchers, expect, value)
	if ofPath {
		a.ofPath = read
	} else {
		a.value = func(a Attributes) (string, bool) { return read(a, "") }
	}
}

// need reports a required word that is missing.
func (a *action) need(v strictyaml.Value, word, said string) {
	if said == "" && (v.IsObject() || v.IsNull()) {
		for _, f := range v.Fields() {
			if f.Name == word {
				return // the word is present and its fault was reported
			}
		}
		v.Fail(fmt.Sprintf("%s without %s", a.name, word), fmt.Sprintf("add `%s:`", word))
	}
}

func readRoute(v strictyaml.Value, a *action) {
	var list *strictyaml.Value
	if v.IsList() {
		list = &v
	} else {
		a.object(v, strictyaml.Words{"patterns": func(v strictyaml.Value) { list = &v }})
	}
	if list == nil {
		if v.IsObject() || v.IsNull() {
			v.Fail("route without patterns", "write route: {patterns: [\"GET /users/{id}\"]}")
		}
		return
	}
	elements := list.List()
	patterns := make([]string, len(elements))
	for i, e := range elements {
		patterns[i] = e.Text()
	}
	set, ok := readPatterns(patterns, a.paths, func(i int) strictyaml.Value { return elements[i] })
	if !ok {
		return
	}
	if len(elements) == 0 && list.IsList() {
		list.Fail("route without patterns", "write route: {patterns: [\"GET /users/{id}\"]}")
	}
	a.values = patterns
	a.ofPath = func(a Attributes, path string) (string, bool) { return set.Match(a.Method(), path) }
}
