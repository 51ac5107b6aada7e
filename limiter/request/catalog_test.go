package request

import (
	"net/http"
	"net/netip"
	"testing"

	"stint/limiter"
	"stint/rule"
	"stint/rule/catalog"
	"stint/store/memory"
)

// visit is a request of a client to a path.
type visit struct{ path, client, user string }

func (v visit) Method() string              { return http.MethodPost }
func (v visit) Path() string                { return v.path }
func (v visit) Query(string) (string, bool) { return "", false }
func (v visit) Header(name string) (string, bool) {
	return v.user, name == "X-User" && v.user != ""
}

func (v visit) RemoteAddress() netip.Addr {
	addr, err := netip.ParseAddr(v.client)
	if err != nil {
		return netip.Addr{}
	}
	return addr
}

// TestCatalog checks that the rules of a catalog apply, whether or not a rule file has
// http.rate_limits for the domain.
func TestCatalog(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		visits     []visit
		passed     string // a letter for each: yes, no, unasked
	}{
		{
			"no rule file", "",
			[]visit{
				{"/a/1", "192.0.2.1", ""},
				{"/a/2", "192.0.2.1", "bob"},
				{"/a/3", "192.0.2.1", "eve"},
				{"/a/4", "192.0.2.2", ""},
				{"/a/5", "2001:db8::1", ""},
				{"/a/6", "2001:db8::2", ""},
				{"/a/7", "2001:db8::3", ""},
				{"/a/8", "", ""},
				{"/b", "", ""},
				{"//b", "", ""},
			},
			"yynyyynyyn",
		},
		{
			"no http section", "domain: api\ndescriptors: [{key: path, rate_limit: {requests: 1, per: 1h}}]\n",
			[]visit{{"/a/1", "192.0.2.1", ""}, {"/a/1", "192.0.2.1", ""}, {"/a/1", "192.0.2.1", ""}},
			"yyn",
		},
		{
			"users of the rule file", `
domain: api
descriptors: [{key: user, rate_limit: {requests: 3, per: 1h}}, {key: path, rate_limit: {requests: 100, per: 1h}}]
http: {rate_limits: [{actions: [{path: {}}]}, {actions: [{request_headers: {header_name: X-User, descriptor_key: user}}]}]}
`,
			[]visit{
				{"/a/1", "192.0.2.1", "bob"},
				{"/a/1", "192.0.2.1", "bob"},
				{"/a/1", "192.0.2.1", "bob"},
				{"/a/1", "192.0.2.1", "eve"},
				{"/a/1", "192.0.2.1", ""},
				{"/a/1", "192.0.2.1", ""},
				{"/a/1", "192.0.2.1", ""},
				{"/c", "192.0.2.1", "bob"},
				{"/c", "192.0.2.1", "bob"},
			},
			"yynyyyyyn",
		},
		{
			"another domain", "domain: web\ndescriptors: []\n",
			[]visit{{"/a/1", "192.0.2.1", ""}, {"/a/1", "192.0.2.1", ""}, {"/a/1", "192.0.2.1", ""}},
			"yyn",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := catalog.New(catalog.Options{Domain: "api"})
			for _, r := range []catalog.Rule{
				{ID: "1", UID: "*", URL: "POST /a/{x}", Time: "hour", Requests: 2},
				{ID: "2", URL: "/b", Time: "hour", Requests: 1},
			} {
				if err := c.Put(r); err != nil {
					t.Fatal(err)
				}
			}
			var rules *rule.Table
			if tt.file != "" {
				rules = table(t, tt.file)
			}
			l := limiter.New(memory.New(memory.Options{}), rules, limiter.Options{Catalog: c})
			b, s, got := &ByRules{Limiter: l, Domain: "api"}, new(Scratch), ""
			for _, v := range tt.visits {
				what, err := b.Decide(t.Context(), v, false, s)
				switch {
				case err != nil:
					t.Fatal(err)
				case what == NoLimit:
					got += "u"
				case s.Verdict.Allowed:
					got += "y"
				default:
					got += "n"
				}
			}
			if got != tt.passed {
				t.Errorf("%s, want %s", got, tt.passed)
			}
			if what, _ := (&ByRules{Limiter: l, Domain: "none"}).Decide(t.Context(), tt.visits[0], false, s); what != NoLimit {
				t.Errorf("a domain that nobody knows: %v", what)
			}
		})
	}
}
