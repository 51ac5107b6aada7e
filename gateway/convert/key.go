package convert

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A source is one placeholder of a zone's key, as an action of a rule file.
type source struct {
	action   string // the action in YAML flow style, with descriptor_key
	key      string // the key of its entry
	optional bool   // a request may lack it: the entry is then left out
}

var placeholder = regexp.MustCompile(`\{[^{}\s]*\}`)

// longNames are the placeholders that a Caddyfile may write shorter.
var longNames = map[string]string{
	"remote_host": "http.request.remote.host",
	"client_ip":   "http.vars.client_ip",
	"host":        "http.request.host",
	"method":      "http.request.method",
	"path":        "http.request.uri.path",
}

// longPrefixes are the beginnings of placeholders that a Caddyfile may write shorter.
var longPrefixes = [][2]string{
	{"header.", "http.request.header."},
	{"cookie.", "http.request.cookie."},
	{"query.", "http.request.uri.query."},
}

// long returns the full name of a placeholder, without its braces.
func long(name string) string {
	if full, ok := longNames[name]; ok {
		return full
	}
	for _, p := range longPrefixes {
		if rest, ok := strings.CutPrefix(name, p[0]); ok {
			return p[1] + rest
		}
	}
	return name
}

// sources returns the actions that read the placeholders of the zone's key, in order. Text between
// placeholders is the same for every request, so it needs no action.
func (c *converter) sources(z *zone) []source {
	var all []source
	if strings.Contains(z.key, `\{`) || strings.Contains(z.key, `\}`) {
		c.fail(z.keyLine, fmt.Sprintf("zone %s: the key %s has a brace behind a backslash, which Caddy takes as text", z.name, z.key), "leave out the brace: text is the same for every request")
		return nil
	}
	for i, found := range placeholder.FindAllString(z.key, -1) {
		s, text, hint := c.source(z, long(strings.Trim(found, "{}")), found)
		if text != "" {
			c.fail(z.keyLine, text, hint)
			return nil
		}
		s.key = fmt.Sprintf("%s_%d", s.key, i+1)
		all = append(all, s)
	}
	if most := 4; len(all) > most {
		c.fail(z.keyLine, fmt.Sprintf("zone %s: the key has %d placeholders, at most %d can be converted", z.name, len(all), most), "use fewer")
		return nil
	}
	if rest := placeholder.ReplaceAllString(z.key, ""); strings.ContainsAny(rest, "{}") {
		c.fail(z.keyLine, fmt.Sprintf("zone %s: the key %s has a brace without a placeholder", z.name, z.key), "remove the brace")
	}
	return all
}

// source returns the action for a placeholder, or what is wrong and a hint.
func (c *converter) source(z *zone, name, written string) (s source, text, hint string) {
	prefixed := z.v4 != 0 || z.v6 != 0
	switch {
	case name == "http.request.remote.host" || name == "http.vars.client_ip":
		return c.address(z, name, written)
	case strings.HasPrefix(name, "http.request.remote.host/"):
		return c.network(z, name, written)
	case prefixed:
		return s, fmt.Sprintf("zone %s: a prefix length beside %s", z.name, written), "use {client_ip} with trusted_proxies and trusted_proxies_strict for the client's address, or remove the prefix"
	}
	plain := map[string]source{
		"http.request.host":     {action: "host: {skip_if_absent: true, %s}", key: "host", optional: true},
		"http.request.method":   {action: "method: {%s}", key: "method"},
		"http.request.uri.path": {action: "path: {%s}", key: "path"},
		"http.auth.user.id":     {action: "identity: {skip_if_absent: true, %s}", key: "user", optional: true},
	}
	if s, ok := plain[name]; ok {
		z.identity = z.identity || name == "http.auth.user.id"
		return s, "", ""
	}
	if header, ok := strings.CutPrefix(name, "http.request.header."); ok && header != "" {
		return headerSource(z, header)
	}
	if cookie, ok := strings.CutPrefix(name, "http.request.cookie."); ok && cookie != "" {
		return source{action: "cookie: {name: " + quote(cookie) + ", skip_if_absent: true, %s}", key: "cookie", optional: true}, "", ""
	}
	if query, ok := strings.CutPrefix(name, "http.request.uri.query."); ok && query != "" {
		return source{action: "query_parameters: {query_parameter_name: " + quote(query) + ", skip_if_absent: true, %s}", key: "query", optional: true}, "", ""
	}
	return s, fmt.Sprintf("zone %s: the placeholder %s has no counterpart", z.name, written), "a key may use {remote_host}, {client_ip}, {host}, {method}, {path}, {header.*}, {cookie.*}, {query.*} and {http.auth.user.id}"
}

// secretHeaders hold secrets. Their values count by their hash, which makes the same buckets.
var secretHeaders = map[string]bool{
	"authorization": true, "proxy-authorization": true, "cookie": true, "x-api-key": true, "api-key": true,
	"apikey": true, "x-auth-token": true, "x-access-token": true,
}

func headerSource(z *zone, header string) (s source, text, hint string) {
	name := strings.ToLower(header)
	if name == "host" {
		return s, fmt.Sprintf("zone %s: {header.Host} is always empty in Caddy", z.name), "write {host}"
	}
	action := "request_headers: {header_name: " + quote(name) + ", skip_if_absent: true, %s}"
	if secretHeaders[name] {
		action = "api_key: {header_name: " + quote(name) + ", skip_if_absent: true, %s}"
	}
	return source{action: action, key: "header", optional: true}, "", ""
}

// address returns the action for the client's address. Prefix lengths apply only where the address is
// the whole key.
func (c *converter) address(z *zone, name, written string) (s source, text, hint string) {
	proxies, strict := c.proxies()
	switch {
	case proxies && name == "http.request.remote.host":
		return s, fmt.Sprintf("zone %s: behind trusted_proxies %s is the address of a proxy, one bucket for all of its clients", z.name, written), "write {client_ip}"
	case proxies && !strict:
		return s, fmt.Sprintf("zone %s: without trusted_proxies_strict a client can choose its own %s", z.name, written), "add trusted_proxies_strict beside trusted_proxies"
	}
	v4, v6 := 32, 128
	if z.key == written {
		v4, v6 = orElse(z.v4, v4), orElse(z.v6, v6)
	}
	return masked(v4, v6), "", ""
}

// network returns the action for {http.request.remote.host/V4,V6}.
func (c *converter) network(z *zone, name, written string) (s source, text, hint string) {
	if proxies, _ := c.proxies(); proxies {
		return s, fmt.Sprintf("zone %s: behind trusted_proxies %s is the network of a proxy", z.name, written), "write {client_ip} with ipv4_prefix and ipv6_prefix"
	}
	_, bits, _ := strings.Cut(name, "/")
	first, second, both := strings.Cut(bits, ",")
	if !both {
		second = first
	}
	v4, err4 := strconv.Atoi(first)
	v6, err6 := strconv.Atoi(second)
	if err4 != nil || err6 != nil || v4 < 0 || v4 > 32 || v6 < 0 || v6 > 128 {
		return s, fmt.Sprintf("zone %s: %s has no valid prefix lengths", z.name, written), "write {http.request.remote.host/32,64}: at most 32 bits for IPv4, at most 128 for IPv6"
	}
	if z.v4 != 0 || z.v6 != 0 {
		return s, fmt.Sprintf("zone %s: ipv4_prefix and ipv6_prefix have no effect beside %s", z.name, written), "remove them"
	}
	return masked(v4, v6), "", ""
}

func masked(v4, v6 int) source {
	return source{action: fmt.Sprintf("masked_remote_address: {v4_prefix_mask_len: %d, v6_prefix_mask_len: %d, %%s}", v4, v6), key: "address"}
}

func orElse(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// quote returns text as a YAML string in double quotes.
func quote(text string) string { return strconv.Quote(text) }
