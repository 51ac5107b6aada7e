package audit_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stint/internal/testkit"
	"stint/rule/audit"
	"stint/rule/rulefile"
)

// found returns the IDs and lines of the findings in a rule file.
func found(t *testing.T, text string) []string {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "t.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, f := range audit.Table(table) {
		ids = append(ids, fmt.Sprintf("%s:%d", f.ID, f.Line))
		if f.File != "t.yaml" || f.Text == "" || f.Hint == "" {
			t.Errorf("incomplete: %+v", f)
		}
	}
	return ids
}

// http returns a rule file with these elements of http.rate_limits, which begin in line 3.
func http(elements, descriptors string) string {
	return "domain: d\nhttp: {rate_limits: [\n" + elements + "\n]}\ndescriptors:\n" + descriptors
}

const (
	address  = "{actions: [{remote_address: {}}]},"
	user     = "{request_headers: {header_name: x-user, descriptor_key: user}}"
	few      = "rate_limit: {requests: 1, per: 1s}"
	ofUser   = "- {key: user, " + few + "}\n"
	ofClient = "- {key: remote_address, " + few + "}\n"
)

// descriptors returns a rule file without an http section; they begin in line 3.
func descriptors(text string) string { return "domain: d\ndescriptors:\n" + text }

func TestTable(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want string
	}{
		"nothing":     {descriptors("- {key: user, " + few + "}"), ""},
		"http and by": {http(address, ofClient), ""},

		"a plan without limits":                   {"domain: d\nplans: {a: {x: {requests: 100, per: 1s}}, b: {y: {requests: 1, per: 1s}}}\ndefault_plan: a\ndescriptors:\n- {key: k, rate_limit: {plan: x}}", "plan-without-limit:5"},
		"limits of different plans":               {"domain: d\nplans: {a: {x: {requests: 1, per: 1s}}, b: {x: [{requests: 9, per: 1s}, {requests: 20, per: 1s}]}}\ndefault_plan: a\ndescriptors:\n- {key: k, rate_limit: {plan: x}}", ""},
		"a default of a mode that nobody has":     {"domain: d\ncache: 10\ndescriptors:\n- {key: k, " + few + "}", "unused-default:2"},
		"a default that all limits say":           {"domain: d\ncoordination: leased\ndescriptors:\n- {key: k, rate_limit: {requests: 100, per: 1s, coordination: gossip}}", "unused-default:2"},
		"a default of those that are not":         {"domain: d\non_store_failure: deny\ndescriptors:\n- {key: k, rate_limit: {unlimited: true}}", "unused-default:2"},
		"a default that one takes":                {"domain: d\ncoordination: gossip\nnodes: 3\ndescriptors:\n- {key: k, " + few + "}\n- {key: l, rate_limit: {requests: 1, per: 1s, coordination: strict}}", ""},
		"a default without any limit":             {"domain: d\ngossip: ask\ndescriptors: []", "unused-default:2"},
		"a pattern hides a later one":             {descriptors("- {key: k, value: a*, " + few + "}\n- {key: k, value: a*b, " + few + "}"), "unreachable-rule:4"},
		"the special pattern comes first":         {descriptors("- {key: k, value: a*b, " + few + "}\n- {key: k, value: a*, " + few + "}"), ""},
		"patterns that only overlap":              {descriptors("- {key: k, value: a*, " + few + "}\n- {key: k, value: '*b', " + few + "}"), ""},
		"a star hides the key alone":              {descriptors("- {key: k, value: '*', " + few + "}\n- {key: k, " + few + "}"), "unreachable-rule:4"},
		"an exact value is never hidden":          {descriptors("- {key: k, value: '*', " + few + "}\n- {key: k, value: a, " + few + "}"), ""},
		"all below what is hidden is so":          {descriptors("- {key: k, value: '*'," + few + "}\n- {key: k, descriptors: [{key: x, " + few + "}]}"), "unreachable-rule:4"},
		"what stands below the wider one is lost": {descriptors("- {key: k, " + few + ", descriptors: [{key: x, " + few + "}]}\n- {key: k, value: vip, " + few + "}"), "hidden-below:4"},
		"it is repeated":                          {descriptors("- {key: k, " + few + ", descriptors: [{key: x, " + few + "}]}\n- {key: k, value: vip, " + few + ", descriptors: [{key: x, " + few + "}]}"), ""},
		"an allow list is meant":                  {descriptors("- {key: k, " + few + ", descriptors: [{key: x, " + few + "}]}\n- {key: k, value: vip}"), ""},
		"and so is unlimited":                     {descriptors("- {key: k, " + few + ", descriptors: [{key: x, " + few + "}]}\n- {key: k, value: vip, rate_limit: {unlimited: true}}"), ""},
		"a pattern takes from the key alone":      {descriptors("- {key: k, " + few + ", descriptors: [{key: x, value: y, " + few + "}]}\n- {key: k, value: v*, " + few + "}"), "no-fallback:3 hidden-below:4"},
		"neither limit nor descriptors":           {descriptors("- {key: k}"), "empty-descriptor:3"},
		"an entry of an allow list":               {descriptors("- {key: k, value: a}\n- {key: k, " + few + "}"), ""},
		"an allow list of a pattern":              {descriptors("- {key: k, value: a*}\n- {key: k, value: '*b', " + few + "}"), ""},
		"an empty pattern behind all others":      {descriptors("- {key: k, value: '*b', " + few + "}\n- {key: k, value: a*}"), "empty-descriptor:4"},
		"an empty value that no other matches":    {descriptors("- {key: k, value: a}\n- {key: k, value: b*, " + few + "}"), "empty-descriptor:3"},

		"only exact values of a key":        {descriptors("- {key: plan, value: free, " + few + "}\n- {key: plan, value: pro, " + few + "}"), "no-fallback:3"},
		"one exact value of a key":          {descriptors("- {key: plan, value: free, " + few + "}"), "no-fallback:3"},
		"limits below exact values":         {descriptors("- {key: plan, value: free, descriptors: [{key: user, " + few + "}]}"), "no-fallback:3"},
		"exact values below":                {descriptors("- {key: user, descriptors: [{key: plan, value: free, " + few + "}]}"), "no-fallback:3"},
		"a fallback for the others":         {descriptors("- {key: plan, value: free, " + few + "}\n- {key: plan, " + few + "}"), ""},
		"a pattern for the others":          {descriptors("- {key: plan, value: free, " + few + "}\n- {key: plan, value: '*', " + few + "}"), ""},
		"exact values without any limit":    {descriptors("- {key: plan, value: free, rate_limit: {unlimited: true}}\n- {key: user, " + few + "}"), ""},
		"exact paths":                       {descriptors("- {key: path, value: /login, " + few + "}"), ""},
		"exact values of a header":          {http(address+"{actions: [{request_headers: {header_name: x-plan, descriptor_key: path}}]}", ofClient+"- {key: path, value: free, "+few+"}"), "no-fallback:7"},
		"exact paths by another key":        {http(address+"{actions: [{path: {descriptor_key: where}}]}", ofClient+"- {key: where, value: /login, "+few+"}"), ""},
		"all values stand in the http part": {http(address+"{actions: [{generic_key: {descriptor_key: kind, descriptor_value: a}}]}", ofClient+"- {key: kind, value: a, "+few+"}"), ""},

		"a number by base eight":       {descriptors("- {key: k, rate_limit: {requests: 010, per: 1s}}"), "octal-number:3"},
		"eight is eight by base ten":   {descriptors("- {key: k, rate_limit: {requests: 07, per: 1s}}\n- {key: l, rate_limit: {requests: 0o10, per: 1s}}"), ""},
		"a burst by base eight":        {descriptors("- {key: k, rate_limit: {requests: 9, per: 1s, algorithm: token_bucket, burst: 0_12}}"), "octal-number:3"},
		"a cost by base eight":         {http("{actions: [{remote_address: {}}], cost: 010}", "- {key: remote_address, rate_limit: {requests: 99, per: 1s}}"), "octal-number:3"},
		"a domain of two lines":        {"domain: |\n  d\ndescriptors: [{key: k, " + few + "}]", "line-break:1"},
		"a key of two lines":           {descriptors("- {key: \"a\\nb\", " + few + "}"), "line-break:3"},
		"a value of two lines":         {descriptors("- {key: k, value: \"a\\r\", " + few + "}\n- {key: k, " + few + "}"), "line-break:3"},
		"the name of a limit is so":    {descriptors("- {key: k, rate_limit: {requests: 1, per: 1s, name: \"a\\n\"}}"), "line-break:3"},
		"the name of a list is so":     {"domain: d\nexempt:\n- {key: a, values: [b], name: \"a\\nb\"}\ndescriptors: [{key: a, " + few + "}]", "line-break:3"},
		"the value of an action is so": {http(address+"{actions: [{generic_key: {descriptor_key: k, descriptor_value: \"a\\n\"}}]}", ofClient+"- {key: k, "+few+"}"), "line-break:3"},

		"replaces nobody":         {descriptors("- {key: k, rate_limit: {requests: 1, per: 1s, replaces: [{name: x}]}}"), "replaces-nobody:3"},
		"two lists":               {"domain: d\nexempt:\n- {key: a, values: [b], name: x}\ndeny:\n- {key: a, values: [c], name: x}\ndescriptors: [{key: a, " + few + "}]", "double-list-name:5"},
		"a list and a rule":       {"domain: d\nexempt:\n- {key: a, values: [b], name: x}\ndescriptors: [{key: a, rate_limit: {requests: 1, per: 1s, name: x}}]", "double-list-name:3"},
		"overdraw":                {descriptors("- {key: k, rate_limit: {requests: 1, per: 1s, overdraw: true}}"), "overdraw-peek:3"},
		"responses unseen":        {descriptors("- {key: k, rate_limit: {requests: 1, per: 1s, count: responses, statuses: [401]}}"), "unseen-answers:3"},
		"a log of a million":      {descriptors("- {key: k, rate_limit: {requests: 1000000, per: 1m, algorithm: sliding_log}}"), "large-log:3"},
		"a rounded rate":          {descriptors("- {key: k, rate_limit: {requests: 300000, per: 1s, algorithm: token_bucket}}"), "rounded-rate:3"},
		"nothing ever":            {descriptors("- {key: k, rate_limit: {requests: 0, per: 1s}}"), "zero-requests:3"},
		"hardly soft":             {descriptors("- {key: k, rate_limit: {requests: 9, per: 1s, soft: 10%}}"), "soft-adds-nothing:3"},
		"a penalty on an account": {descriptors("- {key: user, rate_limit: {requests: 9, per: 1m, penalty: {after: 3, ladder: [1m]}}}"), "account-lockout:3"},
		"a penalty on a pair":     {descriptors("- {key: user, descriptors: [{key: remote_address, rate_limit: {requests: 9, per: 1m, penalty: {after: 3, ladder: [1m]}}}]}"), ""},
		"a penalty on a device":   {descriptors("- {key: user, descriptors: [{key: device, rate_limit: {requests: 9, per: 1m, penalty: {after: 3, ladder: [1m]}}}]}"), ""},
		"a penalty on a key":      {descriptors("- {key: api_key, rate_limit: {requests: 9, per: 1m, penalty: {after: 3, ladder: [1m]}}}"), ""},
		"a penalty on a path too": {descriptors("- {key: account, descriptors: [{key: path, rate_limit: {requests: 9, per: 1m, penalty: {after: 3, ladder: [1m]}}}]}"), "account-lockout:3"},
		"a penalty on a header":   {http(address+"{actions: [{request_headers: {header_name: x-login, descriptor_key: who}}]}", ofClient+"- {key: who, rate_limit: {requests: 9, per: 1m, penalty: {after: 3, ladder: [1m]}}}"), "account-lockout:7"},
		"a penalty on a claim":    {descriptors("- {key: subject, rate_limit: {requests: 9, per: 1m, penalty: {after: 3, ladder: [1m]}}}"), ""},

		"a denial in a shadow": {descriptors("- {key: k, shadow_mode: true, rate_limit: {requests: 9, per: 1s, denial: {status: 503}}}"), "denial-in-shadow:3"},

		"actions without a rule":     {http(address+"{actions: [{path: {}}]}", ofClient), "action-without-rule:3"},
		"never up to a limit":        {http(address+"{actions: ["+user+", {path: {}}]}", ofClient+"- {key: user, "+few+", descriptors: [{key: path, "+few+"}]}"), "passed-by:7"},
		"groups end everywhere":      {http(address+"{groups: ["+user+", {path: {}}]}", ofClient+"- {key: user, rate_limit: {requests: 9, per: 1s}, descriptors: [{key: path, "+few+"}]}"), ""},
		"who brings descriptors may": {http(address, ofClient+"- {key: else, "+few+"}"), "outside-http:7"},
		"a pool needs no request":    {http(address+"{actions: ["+user+"]}", ofClient+"- {key: user, rate_limit: {requests: 1, per: 1s, elastic: {from: all, upto: 200%}}}\n- {key: x, value: all, rate_limit: {requests: 9, per: 1s, name: all}}"), ""},
		"leaving the header out":     {http("{actions: ["+user+"]}", ofUser), "uncounted-request:3 claimed-key:6"},
		"or the address":             {http("{actions: [{first_of: ["+user+", {remote_address: {}}]}]}", ofUser+ofClient), "claimed-key:6"},
		"only what one asks for":     {http("{actions: [{path: {}}]}", "- {key: path, "+few+"}"), "endless-key:6"},
		"the same, and an address":   {http(address+"{actions: [{path: {}}]}", ofClient+"- {key: path, "+few+"}"), ""},
		"a user agent":               {http("{actions: [{request_headers: {header_name: User-Agent, descriptor_key: a}}]}", "- {key: a, "+few+"}"), "uncounted-request:3 endless-key:6"},
		"a secret":                   {http(address+"{actions: [{request_headers: {header_name: X-Api-Key, descriptor_key: user}}]}", ofClient+ofUser), "plain-secret:7"},
		"the hash of a secret":       {http(address+"{actions: [{api_key: {header_name: X-Api-Key, descriptor_key: user}}]}", ofClient+ofUser), ""},
		"routes have an end":         {http("{actions: [{route: [/a, /]}]}", "- {key: route, "+few+"}"), ""},
		"a bucket for all paths":     {http("{actions: [{path: {}}]}", "- {key: path, value: /a*, share_threshold: true, "+few+"}"), ""},
		"paths of who asks":          {descriptors("- {key: path, " + few + "}"), "endless-key:3"},
		"paths of an address":        {descriptors("- {key: remote_address, descriptors: [{key: path, " + few + "}]}"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(found(t, tt.text), " "); got != tt.want {
				t.Errorf("found %q, want %q in\n%s", got, tt.want, tt.text)
			}
		})
	}
}

// A finding in one of several files of a domain has the name of that file.
func TestMergedFiles(t *testing.T) {
	var sources []rulefile.Source
	for name, text := range map[string]string{
		"a.yaml": "domain: d\nhttp: {rate_limits: [{actions: [{path: {}}]}, {actions: [{remote_address: {}}]}]}\ndescriptors:\n" +
			"  - {key: path, value: /a*, rate_limit: {requests: 9, per: 1s}}\n  - {key: remote_address, rate_limit: {requests: 9, per: 1s}}\n",
		"b.yaml": "domain: d\ndescriptors:\n\n\n\n  - {key: path, value: /ab*, rate_limit: {requests: 0, per: 1s}}\n" +
			"  - {key: else, rate_limit: {requests: 9, per: 1s}}\n",
		"c.yaml": "domain: d\ndescriptors:\n  - {key: nothing}\n\n\n\n\n  - {key: tail, value: x*}\n",
		"c2.yaml": "domain: d\ndescriptors:\n  - {key: tail, value: \"*y\", rate_limit: {requests: 9, per: 1s}}\n" +
			"  - {key: tail, value: \"*z\"}\n",
		"d.yaml": "domain: e\ndescriptors:\n  - {key: no, rate_limit: {requests: 0, per: 1s}}\n",
	} {
		sources = append(sources, rulefile.Source{Name: name, Data: []byte(text), Merge: true})
	}
	slices.SortFunc(sources, func(a, b rulefile.Source) int { return strings.Compare(a.Name, b.Name) })
	table, err := rulefile.Parse(sources...)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range audit.Table(table) {
		got = append(got, fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.ID))
		if f.ID == "unreachable-rule" && !strings.Contains(f.Text, "in line 4 of a.yaml comes first") {
			t.Error(f.Text)
		}
	}
	if want := []string{"b.yaml:6: unreachable-rule", "b.yaml:6: zero-requests", "b.yaml:7: outside-http", "c.yaml:3: empty-descriptor", "c2.yaml:4: empty-descriptor", "d.yaml:3: zero-requests"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A value that the action of its key never produces is reported.
func TestImpossibleValues(t *testing.T) {
	for _, tt := range []struct {
		action string
		value  string
		ok     bool
	}{
		{"remote_address: {descriptor_key: k}", "192.0.2.7", true},
		{"remote_address: {descriptor_key: k}", "192.0.2.0/24", false},
		{"remote_address: {descriptor_key: k}", "2001:db8::1", false},
		{"remote_address: {descriptor_key: k}", "2001:db8::/64", true},
		{"remote_address: {descriptor_key: k}", "2001:DB8::/64", false},
		{"remote_address: {descriptor_key: k}", "localhost", false},
		{"path: {descriptor_key: k}", "/a", true},
		{"path: {descriptor_key: k}", "/a//b", false},
		{"path: {descriptor_key: k}", "a*", false},
		{"path: {descriptor_key: k}", "/a*", true},
		{"path: {descriptor_key: k}", "*.png", true},
		{"method: {descriptor_key: k}", "GET", true},
		{"method: {descriptor_key: k}", "get", false},
		{"host: {descriptor_key: k}", "example.com", true},
		{"host: {descriptor_key: k}", "Example.com", false},
		{"host: {descriptor_key: k}", "example.com:80", false},
		{"host: {descriptor_key: k}", "*.example.com", true},
		{`route: {patterns: ["GET /a/{id}", /], descriptor_key: k}`, "GET /a/{id}", true},
		{`route: {patterns: ["GET /a/{id}", /], descriptor_key: k}`, "/a/{id}", false},
		{`route: {patterns: ["GET /a/{id}", /], descriptor_key: k}`, "GET *", true},
		{`route: {patterns: ["GET /a/{id}", /], descriptor_key: k}`, "POST *", false},
		{"generic_key: {descriptor_key: k, descriptor_value: v}", "v", true},
		{"generic_key: {descriptor_key: k, descriptor_value: v}", "w", false},
		{"header_value_match: {descriptor_key: k, descriptor_value: v, headers: [{name: a, present: true}]}", "w", false},
		{"cookie: {name: a, descriptor_key: k}", "secret", false},
		{"cookie: {name: a, descriptor_key: k}", "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b", true},
		{"cookie: {name: a, descriptor_key: k, hashed: false}", "secret", true},
		{"api_key: {header_name: a, descriptor_key: k}", "secret", false},
		{"request_headers: {header_name: ':method', descriptor_key: k}", "post", false},
	} {
		text := http(address+"{actions: [{"+tt.action+"}]}", ofClient+"- {key: k, value: '"+tt.value+"', "+few+"}")
		got := slices.DeleteFunc(found(t, text), func(id string) bool { return id == "no-fallback:7" }) // ignore no-fallback: the rules have only one value
		if want := "impossible-value:7"; slices.Contains(got, want) == tt.ok || tt.ok && len(got) > 0 || len(got) > 1 {
			t.Errorf("%s says %q: found %v, ok %t", tt.action, tt.value, got, tt.ok)
		}
	}
}

// A cost above the capacity of a limit is reported.
func TestCosts(t *testing.T) {
	for _, tt := range []struct {
		cost, limit string
		want        int // number of findings
	}{
		{"cost: 10", "{requests: 10, per: 1s}", 0},
		{"cost: 11", "{requests: 10, per: 1s}", 1},
		{"hits_addend: {number: 11}", "{requests: 10, per: 1s}", 1},
		{"cost: 11", "{requests: 10, per: 1s, soft: 10%}", 0},
		{"cost: 20", "{requests: 10, per: 1s, elastic: {from: load, below: 50%, upto: 200%}}", 0},
		{"cost: 21", "{requests: 10, per: 1s, elastic: {from: load, below: 50%, upto: 200%}}", 1},
		{"cost: 20", "{requests: 10, per: 1s, algorithm: token_bucket, burst: 20}", 0},
		{"cost: 10", "{requests: 10, per: 1s, algorithm: token_bucket, burst: 5}", 1},
		{"cost: 2", "{requests: 10, per: 1s, algorithm: leaky_bucket}", 1},
		{"cost: 2", "{unlimited: true}", 0},
		{"cost: 90", "{requests: 100, per: 1s, coordination: leased, on_store_failure: local, local_share: 10%, nodes: 2}", 0},
		{"cost: 91", "{requests: 100, per: 1s, coordination: leased, on_store_failure: local, local_share: 10%, nodes: 2}", 1},
		{`cost: {routes: {"GET /a": 50, "GET /b": 5, "GET /c": 60}}`, "{requests: 10, per: 1s}", 2},
		{`cost: {routes: {"GET /b": 5}, default: 11}`, "{requests: 10, per: 1s}", 1},
		{"cost: {header: x-cost, default: 11}", "{requests: 10, per: 1s}", 1},
		{"cost: {header: x-cost, max: 100}", "{requests: 10, per: 1s}", 0}, // a request may cost less
	} {
		text := http("{actions: [{remote_address: {}}], "+tt.cost+"}", "- {key: remote_address, rate_limit: "+tt.limit+"}")
		got := found(t, text)
		if len(got) != tt.want || slices.ContainsFunc(got, func(id string) bool { return id != "cost-above-limit:6" }) {
			t.Errorf("%s on %s: found %v, want %d", tt.cost, tt.limit, got, tt.want)
		}
	}
}

// Of two limits that are always asked together, one may never deny.
func TestNeverDenies(t *testing.T) {
	for _, tt := range []struct {
		first, second string
		never         int // number of the limit that never denies; 0 for neither
	}{
		{"{requests: 10, per: 1s}", "{requests: 100, per: 1m}", 0},
		{"{requests: 10, per: 1s}", "{requests: 600, per: 1m}", 2},
		{"{requests: 10, per: 1s}", "{requests: 599, per: 1m}", 0},
		{"{requests: 20, per: 1m}", "{requests: 10, per: 1m}", 1},
		{"{requests: 10, per: 7s}", "{requests: 100, per: 1m}", 2},
		{"{requests: 10, per: 7s}", "{requests: 99, per: 1m}", 0},
		{"{requests: 10, per: 1s, align: first}", "{requests: 610, per: 1m}", 2},
		{"{requests: 10, per: 1s, align: first}", "{requests: 609, per: 1m}", 0},
		{"{requests: 10, per: 1s, algorithm: sliding_log}", "{requests: 600, per: 1m, algorithm: sliding_log}", 2},
		{"{requests: 10, per: 1s}", "{requests: 600, per: 1m, algorithm: sliding_log}", 0},
		{"{requests: 10, per: 1s, algorithm: token_bucket, burst: 5}", "{requests: 10, per: 1s, algorithm: token_bucket, burst: 20}", 2},
		{"{requests: 10, per: 1s, algorithm: token_bucket, burst: 5}", "{requests: 9, per: 1s, algorithm: token_bucket, burst: 20}", 0},
		{"{requests: 10, per: 1s, algorithm: token_bucket, burst: 5}", "{requests: 605, per: 1m}", 2},
		{"{requests: 10, per: 1s, algorithm: token_bucket, burst: 5}", "{requests: 604, per: 1m}", 0},
		{"{requests: 10, per: 1s, soft: 20%}", "{requests: 11, per: 1s}", 0},
		{"{requests: 10, per: 1s, elastic: {from: load, below: 50%, upto: 200%}}", "{requests: 15, per: 1s}", 0},
		{"{requests: 10, per: 1s, count: responses, statuses: [401]}", "{requests: 20, per: 1s}", 0},
		{"{requests: 10, per: 1s, name: a}", "{requests: 20, per: 1s, replaces: [{name: a}]}", 0},
		{"{requests: 10, per: 1s}", "{requests: 20, per: 1s, algorithm: leaky_bucket}", 0},
		{"{requests: 100, unit: day, time_zone: UTC}", "{requests: 3499, unit: month, time_zone: UTC}", 0},
		{"{requests: 100, unit: day, time_zone: UTC}", "{requests: 3500, unit: month, time_zone: UTC}", 2},
		{"{requests: 100, unit: month, time_zone: UTC}", "{requests: 100, unit: year, time_zone: UTC}", 0},
		{"{requests: 1, unit: month, time_zone: UTC}", "{requests: 20, unit: year, time_zone: UTC}", 2},
		{"{unlimited: true}", "{requests: 20, per: 1s}", 0},
	} {
		text := "domain: d\nhttp: {rate_limits: [{actions: [{remote_address: {}}]}]}\ndescriptors:\n- key: remote_address\n  rate_limit:\n  - " + tt.first + "\n  - " + tt.second
		want := ""
		if tt.never > 0 {
			want = fmt.Sprintf("never-denies:%d", 5+tt.never)
		}
		if got := strings.Join(found(t, text), " "); got != want {
			t.Errorf("%s beside %s: found %q, want %q", tt.first, tt.second, got, want)
		}
	}
	for _, tt := range []struct {
		text string
		want string
	}{
		{http(address+"{groups: ["+user+", {path: {}}]}", ofClient+"- {key: user, rate_limit: {requests: 5, per: 1s}, descriptors: [{key: path, rate_limit: {requests: 5, per: 1s}}]}"), "never-denies:7"},
		{http(address+"{actions: ["+user+"]},{actions: ["+user+", {path: {}}]}", ofClient+"- {key: user, rate_limit: {requests: 5, per: 1s}, descriptors: [{key: path, rate_limit: {requests: 9, per: 1s}}]}"), "never-denies:7"},
		{http(address+"{actions: ["+user+"]},{actions: ["+user+", {path: {}}], cost: 2}", ofClient+"- {key: user, rate_limit: {requests: 5, per: 1s}, descriptors: [{key: path, rate_limit: {requests: 9, per: 1s}}]}"), ""},
		{"atomic: false\n" + http(address+"{groups: ["+user+", {path: {}}]}", ofClient+"- {key: user, rate_limit: {requests: 5, per: 1s}, descriptors: [{key: path, rate_limit: {requests: 5, per: 1s}}]}"), ""},
	} {
		if got := strings.Join(found(t, tt.text), " "); got != tt.want {
			t.Errorf("found %q, want %q in\n%s", got, tt.want, tt.text)
		}
	}
}

// The example rules have no findings except the intended ones.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/*/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "_test.yaml") || !strings.Contains("\n"+string(data), "\ndomain:") {
			continue
		}
		table, err := rulefile.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range audit.Table(table) {
			if f.Severity >= audit.Warning {
				t.Errorf("%s:%d: %s (%s)", f.File, f.Line, f.Text, f.ID)
			}
		}
	}
}

// The golden file has every finding of a file that is accepted with warnings.
func TestWarnings(t *testing.T) {
	table, err := rulefile.Load("../testdata/good/warnings.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range audit.Table(table) {
		fmt.Fprintf(&text, "%d: %s: %s: %s\n", f.Line, f.Severity, f.ID, f.Text)
	}
	want, err := os.ReadFile("testdata/warnings.want")
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(want) {
		t.Errorf("found\n%swant\n%s", text.String(), want)
	}
}

// Each kind is described once, and each finding is of a known kind.
func TestKinds(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range audit.Kinds {
		if seen[k.ID] || k.Means == "" || k.Do == "" || !strings.HasSuffix(k.Means, ".") || !strings.HasSuffix(k.Do, ".") {
			t.Errorf("%+v", k)
		}
		seen[k.ID] = true
	}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sources {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Split(string(data), `a.find("`)[1:] {
			if id, _, _ := strings.Cut(part, `"`); !seen[id] && !strings.HasSuffix(name, "_test.go") {
				t.Errorf("%s: no kind is called %s", name, id)
			}
		}
	}
	text, err := json.Marshal(audit.Finding{ID: "x", Severity: audit.Warning, File: "f", Text: "t"})
	if want := `{"id":"x","severity":"warning","file":"f","text":"t","hint":""}`; err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}

// No valid file makes the audit panic, and each finding is complete.
func FuzzTable(f *testing.F) {
	for _, pattern := range []string{"../testdata/good/*.yaml", "../../examples/rules/*.yaml"} {
		for _, name := range testkit.GoldenInputs(f, pattern) {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := rulefile.Parse(rulefile.Source{Name: "f", Data: data})
		if err != nil {
			return
		}
		all := audit.Table(table)
		for _, x := range all {
			if x.ID == "" || x.Line == 0 || x.Text == "" || x.Hint == "" {
				t.Errorf("incomplete: %+v", x)
			}
		}
		if again := audit.Table(table); !slices.Equal(all, again) {
			t.Errorf("another time %v, not %v", again, all)
		}
	})
}
