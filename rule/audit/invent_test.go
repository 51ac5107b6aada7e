package audit_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"stint"
	"stint/rule"
	"stint/rule/audit"
	"stint/rule/rulefile"
)

// Values that a client invents can replace another identity in many ways.
func TestClaimedKey(t *testing.T) {
	const (
		key    = "{api_key: {header_name: x-api-key, descriptor_key: key}}"
		maybe  = "{api_key: {header_name: x-api-key, descriptor_key: key, skip_if_absent: true}}"
		ip     = "{remote_address: {descriptor_key: ip}}"
		whole  = "{actions: [{remote_address: {descriptor_key: whole}}]}"
		all    = "{actions: [{generic_key: {descriptor_key: all, descriptor_value: x}}]}"
		of     = "rate_limit: {requests: 1, per: 1s}"
		keys   = "- {key: key, " + of + "}\n"
		ips    = "- {key: ip, " + of + "}\n"
		wholes = "- {key: whole, " + of + "}\n"
	)
	first := func(actions ...string) string { return "{first_of: [" + strings.Join(actions, ", ") + "]}" }
	actions := func(actions ...string) string { return "{actions: [" + strings.Join(actions, ", ") + "]}" }
	for name, tt := range map[string]struct {
		elements []string
		rules    string
		want     bool
	}{
		"first_of":                                  {[]string{actions(first(key, ip))}, keys + ips, true},
		"beside the address":                        {[]string{actions(first(key, ip)), whole}, keys + ips + wholes, false},
		"beside a limit of all":                     {[]string{actions(first(key, ip)), all}, keys + ips + "- {key: all, " + of + "}\n", true},
		"a key without an address, beside all":      {[]string{actions(key), all}, keys + "- {key: all, " + of + "}\n", false},
		"the address comes first":                   {[]string{actions(first(ip, key))}, ips, false},
		"first_of in first_of":                      {[]string{actions(first(first(key, "{basic_auth_user: {descriptor_key: u}}"), ip))}, keys + ips, true},
		"behind what every request has":             {[]string{actions(first(first("{tls_client_certificate: {descriptor_key: u}}", ip), key))}, ips + "- {key: u, " + of + "}\n" + wholes, false},
		"only known keys have limits":               {[]string{actions(first(key, ip))}, "- {key: key, value: " + strings.Repeat("0", 64) + ", " + of + "}\n" + ips, true},
		"one bucket of all keys":                    {[]string{actions(first(key, ip))}, "- {key: key, value: '*', share_threshold: true, " + of + "}\n" + ips, true},
		"an entry that may be left out, before":     {[]string{actions(maybe, ip)}, ips + "- {key: key, descriptors: [{key: ip, " + of + "}]}\n", true},
		"an entry that may be left out, behind":     {[]string{actions(ip, maybe)}, "- {key: ip, " + of + ", descriptors: [{key: key, " + of + "}]}\n", true},
		"groups hold by the outermost":              {[]string{"{groups: [" + ip + ", " + key + "]}"}, "- {key: ip, " + of + ", descriptors: [{key: key, " + of + "}]}\n", false},
		"groups that begin with a claim":            {[]string{"{groups: [" + first(key, ip) + ", {method: {}}]}"}, keys + ips, true},
		"groups without a limit around":             {[]string{"{groups: [" + ip + ", " + key + "]}"}, "- {key: ip, descriptors: [{key: key, " + of + "}]}\n", true},
		"a key of an address":                       {[]string{actions(ip, key)}, "- {key: ip, descriptors: [{key: key, " + of + "}]}\n", true},
		"the limit beside is a candidate":           {[]string{actions(first(key, ip)), whole}, keys + ips + "- {key: whole, shadow_mode: true, " + of + "}\n", true},
		"the limit beside is in quota mode":         {[]string{actions(first(key, ip)), whole}, keys + ips + "- {key: whole, quota_mode: true, " + of + "}\n", true},
		"the limit beside is none":                  {[]string{actions(first(key, ip)), whole}, keys + ips + "- {key: whole, rate_limit: {unlimited: true}}\n", true},
		"the limit beside is for one address":       {[]string{actions(first(key, ip)), whole}, keys + ips + "- {key: whole, value: 192.0.2.7, " + of + "}\n", true},
		"the limit beside is for each path":         {[]string{actions(first(key, ip)), actions("{remote_address: {descriptor_key: whole}}", "{path: {}}")}, keys + ips + "- {key: whole, descriptors: [{key: path, " + of + "}]}\n", true},
		"the limit beside is for one path":          {[]string{actions(first(key, ip)), actions("{remote_address: {descriptor_key: whole}}", "{path: {}}")}, keys + ips + "- {key: whole, descriptors: [{key: path, value: /login, " + of + "}]}\n", true},
		"a claim replaces the limit beside":         {[]string{actions(key), whole}, "- {key: key, rate_limit: {requests: 1, per: 1s, replaces: [{name: w}]}}\n- {key: whole, rate_limit: {requests: 1, per: 1s, name: w}}\n", true},
		"an address replaces the limit beside":      {[]string{actions(key), actions(ip), whole}, keys + "- {key: ip, rate_limit: {requests: 1, per: 1s, replaces: [{name: w}]}}\n- {key: whole, rate_limit: {requests: 1, per: 1s, name: w}}\n", false},
		"two replace each other":                    {[]string{actions(key), actions(ip), whole}, keys + "- {key: ip, rate_limit: {requests: 1, per: 1s, name: i, replaces: [{name: w}]}}\n- {key: whole, rate_limit: {requests: 1, per: 1s, name: w, replaces: [{name: i}]}}\n", true},
		"any address of IPv6":                       {[]string{actions("{masked_remote_address: {v6_prefix_mask_len: 128, descriptor_key: ip}}")}, ips, true},
		"a /64 of IPv6":                             {[]string{actions("{masked_remote_address: {v6_prefix_mask_len: 64, descriptor_key: ip}}")}, ips, false},
		"a certificate, else the address":           {[]string{actions(first("{tls_client_certificate: {descriptor_key: c}}", ip))}, "- {key: c, " + of + "}\n" + ips, false},
		"what the server asks for, else an address": {[]string{actions(first("{query_parameters: {query_parameter_name: q, descriptor_key: key}}", ip))}, keys + ips, true},
		"an override of the method":                 {[]string{actions(first("{request_headers: {header_name: x-m, descriptor_key: o}}", "{method: {}}"))}, "- {key: o, value: DELETE, " + of + "}\n- {key: method, value: DELETE, " + of + "}\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			text := http(strings.Join(tt.elements, ",\n"), tt.rules)
			ids := found(t, text)
			if got := slices.ContainsFunc(ids, func(id string) bool { return strings.HasPrefix(id, "claimed-key:") }); got != tt.want {
				t.Errorf("found %q, want claimed-key %t in\n%s", ids, tt.want, text)
			}
		})
	}
}

// request is a request of one client, from an address.
type request struct {
	address netip.Addr
	headers map[string]string
}

func (r *request) Method() string              { return "GET" }
func (r *request) Path() string                { return "/" }
func (r *request) Query(string) (string, bool) { return "", false }
func (r *request) RemoteAddress() netip.Addr   { return r.address }
func (r *request) Header(name string) (string, bool) {
	value, ok := r.headers[strings.ToLower(name)]
	return value, ok
}

// For random rules: the check reports claimed-key if and only if a client at one address is limited
// less when it invents values for some headers than when it sends none.
func TestClaimedKeyByPlay(t *testing.T) {
	n := 5000
	if testing.Short() {
		n = 500
	}
	random := rand.New(rand.NewPCG(1, 2))
	escapes := 0
	for i := range n {
		text := randomRules(random)
		table, err := rulefile.Parse(rulefile.Source{Name: "t.yaml", Data: []byte(text)})
		if err != nil {
			continue // invalid rules, such as one rule twice
		}
		domain := table.Domain("d")
		honest, worst := held(domain, 0), unheld
		for choice := 1; choice < 8; choice++ {
			if h := held(domain, choice); choice == 1 || h < worst {
				worst = h
			}
		}
		said := slices.ContainsFunc(audit.Table(table), func(f audit.Finding) bool { return f.ID == "claimed-key" })
		if worst < honest {
			escapes++
			if !said {
				t.Fatalf("rules %d: made-up headers escape the limit of the address, and the check finds nothing:\n%s", i, text)
			}
		} else if said && honest != unheld {
			t.Fatalf("rules %d: nothing that is made up helps, and the check says so:\n%s", i, text)
		}
	}
	if escapes < n/100 {
		t.Errorf("only %d of %d rules can be escaped", escapes, n)
	}
}

// How a client is limited: not at all, by a bucket shared with others, or by a bucket of its
// address.
const (
	unheld = iota
	shared
	own
)

// held returns how two requests of one address are limited if each has new values for the chosen
// headers.
func held(domain *rule.Domain, choice int) int {
	first, second, other := charged(domain, "192.0.2.1", choice, 1), charged(domain, "192.0.2.1", choice, 2), charged(domain, "198.51.100.1", choice, 3)
	held := unheld
	for _, key := range first {
		switch {
		case !slices.Contains(second, key):
		case slices.Contains(other, key):
			held = max(held, shared)
		default:
			held = own
		}
	}
	return held
}

// charged returns the buckets that deny a request and are charged for it.
func charged(domain *rule.Domain, address string, choice, number int) []string {
	r := request{netip.MustParseAddr(address), map[string]string{}}
	for h := range 3 {
		if choice&(1<<h) != 0 {
			r.headers[fmt.Sprint("h", h)] = fmt.Sprint("new", number)
		}
	}
	descriptors, _ := domain.Describe(nil, &r, rule.AnyPhase)
	var rules []*rule.Rule
	var keys []string
	for _, d := range descriptors {
		for _, r := range domain.Match(d.Entries) {
			rules, keys = append(rules, r), append(keys, string(r.AppendKey(nil, d.Entries)))
		}
	}
	var deny []string
	for i, r := range rules {
		replaced := slices.ContainsFunc(rules, func(by *rule.Rule) bool { return r.Given != "" && slices.Contains(by.Replaces, r.Given) })
		if !replaced && !r.Shadow && r.Limit.Algorithm() != stint.Unlimited {
			deny = append(deny, keys[i])
		}
	}
	return deny
}

// randomRules returns rules over an address and three headers, with elements of every form.
func randomRules(r *rand.Rand) string {
	var action func(depth int, either bool) string
	header := func(either bool) string {
		h, more := r.IntN(3), ""
		if !either && r.IntN(4) == 0 {
			more = ", skip_if_absent: true"
		}
		return fmt.Sprintf("{request_headers: {header_name: h%d, descriptor_key: k%d%s}}", h, h, more)
	}
	action = func(depth int, either bool) string {
		switch n := r.IntN(6); {
		case n == 0 && depth < 2:
			var all []string
			for range 1 + r.IntN(3) {
				all = append(all, action(depth+1, true))
			}
			return "{first_of: [" + strings.Join(all, ", ") + "]}"
		case n < 3:
			return fmt.Sprintf("{remote_address: {descriptor_key: %s}}", []string{"ip", "a"}[r.IntN(2)])
		}
		return header(either)
	}
	var elements []string
	for range 1 + r.IntN(2) {
		var all []string
		for range 1 + r.IntN(2) {
			all = append(all, action(0, false))
		}
		elements = append(elements, fmt.Sprintf("{%s: [%s]}", []string{"actions", "actions", "groups"}[r.IntN(3)], strings.Join(all, ", ")))
	}
	var level func(depth int) string
	level = func(depth int) string {
		var nodes []string
		for _, key := range []string{"k0", "k1", "k2", "ip", "a"} {
			if r.IntN(3) == 0 {
				continue
			}
			node := "key: " + key
			switch r.IntN(8) {
			case 0:
				node += ", value: 'new*'"
			case 1:
				node += ", value: '*', share_threshold: true"
			case 2:
				node += ", value: known"
			}
			switch r.IntN(10) {
			case 0:
				node += ", shadow_mode: true, rate_limit: {requests: 1, per: 1s}"
			case 1:
				node += ", rate_limit: {unlimited: true}"
			case 2:
				node += ", rate_limit: {requests: 1, per: 1s, name: n" + key + "}"
			case 3:
				node += ", rate_limit: {requests: 1, per: 1s, replaces: [{name: n" + []string{"ip", "a"}[r.IntN(2)] + "}]}"
			case 4:
			default:
				node += ", rate_limit: {requests: 1, per: 1s}"
			}
			if depth < 1 {
				node += ", descriptors: [" + level(depth+1) + "]"
			}
			nodes = append(nodes, "{"+node+"}")
		}
		return strings.Join(nodes, ", ")
	}
	return "domain: d\nhttp: {rate_limits: [\n" + strings.Join(elements, ",\n") + "\n]}\ndescriptors: [" + level(0) + "]\n"
}
