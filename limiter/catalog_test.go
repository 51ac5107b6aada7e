package limiter

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/rule"
	"stint/rule/catalog"
	"stint/store/memory"
)

// cataloged returns a limiter with a table and a catalog. Each row of the catalog is id, uid, url,
// time, requests, algorithm, policy and domain.
func cataloged(t testing.TB, yaml string, rows ...string) (*Limiter, *catalog.Catalog) {
	t.Helper()
	c := catalog.New(catalog.Options{Domain: "api"})
	for _, row := range rows {
		if err := c.Put(ruleOf(t, row)); err != nil {
			t.Fatal(err)
		}
	}
	var rules *rule.Table
	if yaml != "" {
		rules = table(t, yaml)
	}
	store := memory.New(memory.Options{Clock: func() stint.Instant { return noon }})
	return New(store, rules, Options{Catalog: c}), c
}

func ruleOf(t testing.TB, row string) catalog.Rule {
	f := append(strings.Split(row, ","), "", "", "")
	r := catalog.Rule{ID: f[0], UID: f[1], URL: f[2], Time: f[3], Algorithm: f[5], Policy: f[6], Domain: f[7]}
	if _, err := fmt.Sscan(f[4], &r.Requests); err != nil && f[4] != "" {
		t.Fatal(err)
	}
	return r
}

// described returns a descriptor of alternating keys and values.
func described(cost uint32, words ...string) Descriptor {
	d := Descriptor{Cost: cost}
	for pair := range slices.Chunk(words, 2) {
		d.Entries = append(d.Entries, rule.Entry{Key: pair[0], Value: pair[1]})
	}
	return d
}

var noon = stint.At(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))

func decided(t *testing.T, l *Limiter, v *Verdict, req Request) *Verdict {
	t.Helper()
	req.At = noon
	if req.Domain == "" {
		req.Domain = "api"
	}
	if err := l.Decide(t.Context(), &req, v); err != nil {
		t.Fatal(err)
	}
	return v
}

// The example of the README of catalogs: one bucket for the pattern, shared by all users.
func TestCatalogCountsByPattern(t *testing.T) {
	l, _ := cataloged(t, "", "7,all,/v1/orders/{id},minute,5")
	v := new(Verdict)
	for i := range 5 {
		d := described(1, "path", fmt.Sprintf("/v1/orders/%d", i), "user", fmt.Sprint(i))
		if decided(t, l, v, Request{Descriptors: []Descriptor{d}}); !v.Allowed || v.Rule.Name != "7" || v.Limit != 5 || v.Remaining != int64(4-i) {
			t.Fatalf("request %d: %+v", i, v.Decision)
		}
	}
	d := described(1, "user", "eve", "path", "/v1//orders/./9?x=1", "method", "GET")
	if decided(t, l, v, Request{Descriptors: []Descriptor{d}}); v.Allowed || v.RetryAfter != time.Minute || v.Results[0].Rule != v.Rule {
		t.Errorf("the sixth: %+v", v.Decision)
	}
	if decided(t, l, v, Request{Descriptors: []Descriptor{described(1, "path", "/v1/other")}}); !v.Allowed || v.Rule != nil {
		t.Errorf("another path: %+v", v.Decision)
	}
	if decided(t, l, v, Request{Domain: "web", Descriptors: []Descriptor{d}}); !v.Allowed || v.Rule != nil {
		t.Errorf("another domain: %+v", v.Decision)
	}
}

func TestCatalogKeepsUsersApart(t *testing.T) {
	l, c := cataloged(t, "",
		"1,*,/v1/,minute,2", "2,bob,/v1/,minute,3", "3,plan:gold,/v1/,minute,4", "4,user:all,/v1/,minute,1", "5,all,/v1/,minute,100", "6,bob,/v1/,hour,1000")
	v := new(Verdict)
	for _, tt := range []struct {
		user, plan string
		most       int64
	}{{"ann", "", 2}, {"ann2", "", 2}, {"bob", "gold", 3}, {"eve", "gold", 4}, {"al", "gold", 4}, {"all", "", 1}, {"plan:gold", "", 2}, {"", "gold", 100}} {
		d := described(1, "user", tt.user, "plan", tt.plan, "path", "/v1/x")
		if decided(t, l, v, Request{Descriptors: []Descriptor{d}}); v.Limit != tt.most || v.Remaining != tt.most-1 && tt.user != "" {
			t.Errorf("%+v: %+v", tt, v.Decision)
		}
	}
	// A change of the numbers keeps the used units; another uid has a new bucket.
	if err := c.Put(ruleOf(t, "2,bob,/v1/,minute,10")); err != nil {
		t.Fatal(err)
	}
	d := described(1, "user", "bob", "path", "/v1/x")
	if decided(t, l, v, Request{Descriptors: []Descriptor{d}}); v.Limit != 10 || v.Remaining != 8 || len(v.Asked) != 3 {
		t.Errorf("changed: %+v, %d limits", v.Decision, len(v.Asked))
	}
	if err := c.Put(ruleOf(t, "2,user:bob,/v1/,minute,10")); err != nil {
		t.Fatal(err)
	}
	if decided(t, l, v, Request{Descriptors: []Descriptor{d}}); v.Remaining != 9 {
		t.Errorf("another uid: %+v", v.Decision)
	}
}

const beside = `
domain: api
descriptors:
  - key: path
    rate_limit: {unit: minute, requests_per_unit: 3, name: file}
  - key: method
    descriptors: [{key: path, rate_limit: {unit: minute, requests_per_unit: 1}}]
`

func TestCatalogBesideTable(t *testing.T) {
	l, _ := cataloged(t, beside, "1,all,/a,minute,1", "2,all,/b,minute,9,,shadow", "3,all,/c,minute,0,,shadow", "4,all,/d,minute,10,,soft:10%")
	v := new(Verdict)
	ask := func(path string) *Verdict {
		return decided(t, l, v, Request{Descriptors: []Descriptor{described(1, "path", path)}})
	}
	if ask("/a"); !v.Allowed || v.Rule.Name != "1" || len(v.Asked) != 2 {
		t.Errorf("first: %+v", v)
	}
	if ask("/a"); v.Allowed || v.Rule.Name != "1" || v.Asked[0].Remaining != 2 {
		t.Errorf("the table's rule was charged for what the catalog denied: %+v", v.Asked)
	}
	if ask("/b"); !v.Allowed || v.Rule.Name != "file" || !v.Asked[1].Rule.Shadow {
		t.Errorf("a shadow rule: %+v", v)
	}
	if ask("/c"); !v.Allowed || v.Asked[1].Allowed {
		t.Errorf("a shadow rule that denies: %+v", v)
	}
	d := described(10, "path", "/d")
	d.CatalogOnly = true
	if decided(t, l, v, Request{Descriptors: []Descriptor{d}}); !v.Allowed || v.Over || v.Limit != 10 || len(v.Asked) != 1 {
		t.Errorf("soft: %+v", v)
	}
	d.Cost = 1
	if decided(t, l, v, Request{Descriptors: []Descriptor{d}}); !v.Allowed || !v.Over {
		t.Errorf("above soft: %+v", v)
	}
	if decided(t, l, v, Request{Descriptors: []Descriptor{d}}); v.Allowed {
		t.Errorf("above all: %+v", v)
	}
}

// If several descriptors lead to one bucket, the call takes from it once, with the highest of their
// costs.
func TestCatalogTakesOnce(t *testing.T) {
	l, _ := cataloged(t, "", "1,all,/a,minute,10", "2,*,/a,minute,10")
	v := new(Verdict)
	decided(t, l, v, Request{Descriptors: []Descriptor{described(1, "path", "/a"), described(3, "path", "/a", "user", "bob"), described(2, "path", "//a", "user", "eve")}})
	if len(v.Asked) != 3 || v.Asked[0].Remaining != 7 || v.Asked[1].Remaining != 7 || v.Asked[2].Remaining != 8 {
		t.Errorf("%+v", v.Asked)
	}
	if v.Results[0].Remaining != 7 || v.Results[1].Remaining != 7 || v.Results[2].Remaining != 7 || v.Results[2].Rule.Name != "1" {
		t.Errorf("%+v", v.Results)
	}
	refund := described(1, "path", "/a")
	refund.Refund = true
	decided(t, l, v, Request{Descriptors: []Descriptor{described(2, "path", "/a"), refund}})
	if len(v.Asked) != 2 || v.Asked[1].Remaining-v.Asked[0].Remaining != 1 && v.Asked[0].Remaining-v.Asked[1].Remaining != 2 {
		t.Errorf("a take beside a refund: %+v", v.Asked)
	}
}

// Refund, reset and peek work for a rule of the catalog as for any other rule.
func TestCatalogOperations(t *testing.T) {
	l, _ := cataloged(t, "", "1,*,/a,minute,10")
	v := new(Verdict)
	d := []Descriptor{described(4, "path", "/a", "user", "bob")}
	decided(t, l, v, Request{Descriptors: d})
	if err := l.Undo(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	peek := []Descriptor{described(0, "path", "/a", "user", "bob")}
	if decided(t, l, v, Request{Descriptors: peek}); v.Remaining != 10 {
		t.Errorf("after undo %d remain", v.Remaining)
	}
	decided(t, l, v, Request{Descriptors: d})
	decided(t, l, v, Request{Descriptors: peek, Op: stint.Reset})
	if decided(t, l, v, Request{Descriptors: peek}); v.Remaining != 10 {
		t.Errorf("after reset %d remain", v.Remaining)
	}
}

// However many requests run while a rule is raised step by step, as many pass as it allows in the
// end. A rule whose policy changes all the time, while other rules are added and removed, lets
// exactly its limit pass, also after its numbers are raised.
func TestCatalogIsExactWhileItChanges(t *testing.T) {
	l, c := cataloged(t, "", "1,all,/a/{x},hour,201")
	var passed atomic.Int64
	ask := func(v *Verdict, i int) {
		req := Request{Domain: "api", At: noon, Descriptors: []Descriptor{described(1, "path", fmt.Sprintf("/a/%d", i))}}
		if err := l.Decide(t.Context(), &req, v); err != nil || v.Rule == nil {
			t.Errorf("error %v, rule %v", err, v.Rule)
		} else if v.Allowed {
			passed.Add(1)
		}
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			v := new(Verdict)
			for i := range 300 {
				ask(v, i)
			}
		})
	}
	wg.Go(func() {
		for i := range 100 {
			policy := []string{"deny", "allow"}[i%2]
			for _, line := range []string{"1,all,/a/{x},hour,201,," + policy, fmt.Sprintf("other%d,all,/b/%d,hour,1", i%10, i)} {
				if err := c.Put(ruleOf(t, line)); err != nil {
					t.Error(err)
				}
			}
		}
	})
	wg.Wait()
	if n := passed.Load(); n != 201 {
		t.Errorf("%d passed", n)
	}
	if err := c.Put(ruleOf(t, "1,all,/a/{x},hour,400")); err != nil {
		t.Fatal(err)
	}
	for i := range 400 {
		ask(new(Verdict), i)
	}
	if n := passed.Load(); n != 400 {
		t.Errorf("%d passed once the limit was raised", n)
	}
}

func TestCatalogAllocatesNothing(t *testing.T) {
	if testkit.Race {
		return // the race detector allocates
	}
	l, _ := cataloged(t, beside, "1,all,/v1/{x},minute,1000000", "2,*,/v1/{x},minute,1000000")
	v := new(Verdict)
	req := Request{Domain: "api", Descriptors: []Descriptor{described(1, "user", "bob", "path", "/v1/42?q=1")}}
	if n := testing.AllocsPerRun(100, func() {
		if err := l.Decide(t.Context(), &req, v); err != nil || len(v.Asked) != 2 {
			t.Fatal(err, len(v.Asked))
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A path with too many readings is denied and takes nothing. A call that takes nothing gets an
// answer.
func TestUnreadablePath(t *testing.T) {
	l, _ := cataloged(t, beside, "1,all,/v1/{x...},minute,10")
	path := "/v1" + "/a;b%2F..//c%252F.%2e/d;e"
	for _, op := range []stint.Op{stint.Ask, stint.Reset} {
		var v Verdict
		req := Request{Domain: "api", Op: op, Descriptors: []Descriptor{described(1, "path", path), described(1, "path", "/v1/a")}}
		if err := l.Decide(t.Context(), &req, &v); err != nil || v.Allowed == (op == stint.Ask) || (v.Listed != nil) != (op == stint.Ask) {
			t.Errorf("op %v: allowed %v, %+v, %v", op, v.Allowed, v.Listed, err)
		}
		if v.Listed != nil && (v.Listed.Status != 400 || len(v.Asked) > 0 || v.Results[1].Decision.Allowed) {
			t.Errorf("%+v, asked %d", v.Listed, len(v.Asked))
		}
	}
}
