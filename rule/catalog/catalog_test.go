package catalog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"stint/internal/testkit"
	"stint/rule"
)

// A catalog chooses among patterns as net/http's ServeMux does, if ServeMux accepts the patterns.
func TestMatchIsServeMux(t *testing.T) {
	segments := []string{"a", "b", "c", "{x}", "{y}"}
	ends := []string{"", "", "/", "/{rest...}", "/{$}"}
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 11))
		mux, c := http.NewServeMux(), New(Options{})
		for i := range 60 {
			url := ""
			for j := range random.IntN(4) {
				url += "/" + strings.Replace(pick(random, segments), "}", fmt.Sprint(j, "}"), 1)
			}
			if url += pick(random, ends); url == "" {
				url = "/"
			}
			url = pick(random, someMethods) + url
			if !registers(mux, url) {
				continue
			}
			if err := c.Put(Rule{ID: fmt.Sprint(i), URL: url, Time: "sec", Requests: 1}); err != nil {
				t.Fatalf("net/http takes %s, and the catalog does not: %v", url, err)
			}
		}
		var m Matched
		for range 500 {
			a := randomAsk(random)
			if a.method == "" {
				continue
			}
			r := httptest.NewRequest(a.method, a.path, nil)
			h, want := mux.Handler(r)
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); want != "" && w.Code != http.StatusNotFound {
				continue // ServeMux redirects to the path with a trailing slash
			}
			a.domain = ""
			got := ""
			if ids := matched(c, &m, a); len(ids) == 1 {
				r, _ := c.Get(ids[0])
				got = r.URL
			}
			if got != want {
				t.Fatalf("seed %d: %s %s: %q, net/http says %q", seed, a.method, a.path, got, want)
			}
		}
	}
}

// registers reports whether net/http accepts a pattern beside the registered ones.
func registers(mux *http.ServeMux, url string) (ok bool) {
	defer func() { ok = recover() == nil }()
	mux.Handle(url, http.NotFoundHandler())
	return true
}

func TestReplaceIsAllOrNothing(t *testing.T) {
	c := New(Options{Domain: "api"})
	good := []Rule{{ID: "1", URL: "/a", Time: "sec", Requests: 1}, {ID: "2", URL: "/b", Time: "sec", Requests: 1}}
	if err := c.Replace(seq(good)); err != nil {
		t.Fatal(err)
	}
	hash, generation := c.Hash(), c.Generation()
	broken := errors.New("broken")
	for _, tt := range []struct {
		rules []Rule
		err   error
		says  string
	}{
		{append(good[:2:2], Rule{ID: "1", URL: "/c", Time: "sec"}), nil, "number 0 and number 2"},
		{append(good[:2:2], Rule{ID: "3", URL: "/a", Time: "1s"}), nil, "is already limited by rule 1"},
		{append(good[:2:2], Rule{ID: "3", URL: "a", Time: "1s"}), nil, "slash"},
		{append(good[:2:2], Rule{ID: "3", URL: "/a", Time: "1s", Algorithm: "x"}), nil, "algorithm"},
		{good, broken, "broken"},
	} {
		err := c.Replace(func(yield func(Rule, error) bool) {
			for _, r := range tt.rules {
				if !yield(r, nil) {
					return
				}
			}
			if tt.err != nil {
				yield(Rule{}, tt.err)
			}
		})
		if err == nil || !strings.Contains(err.Error(), tt.says) || c.Hash() != hash || c.Generation() != generation || c.Len() != 2 {
			t.Errorf("%q: error %v, hash %s, generation %d", tt.says, err, c.Hash(), c.Generation())
		}
	}
	if err := c.Put(good[0]); err != nil || c.Generation() != generation {
		t.Errorf("a rule that is there already: %v, generation %d", err, c.Generation())
	}
	if err := c.Put(Rule{ID: "1", URL: "/c", Time: "sec"}); err != nil || c.Generation() != generation+1 || c.Hash() == hash {
		t.Errorf("%v, generation %d, hash %s", err, c.Generation(), c.Hash())
	}
	if err := c.Put(Rule{ID: "1", URL: "/a", Time: "sec", Requests: 1}); err != nil || c.Hash() != hash {
		t.Errorf("changed back: %v, hash %s, was %s", err, c.Hash(), hash)
	}
}

// Readers see all rules of one version: a rule whose url changes is always found.
func TestMatchWhileRulesChange(t *testing.T) {
	c := New(Options{Domain: "api"})
	put := func(r Rule) {
		if err := c.Put(r); err != nil {
			t.Error(err)
		}
	}
	put(Rule{ID: "moves", URL: "/a/", Time: "sec", Requests: 1})
	put(Rule{ID: "stays", UID: "*", URL: "/a/{x}", Time: "sec", Requests: 1})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			var m Matched
			for {
				select {
				case <-stop:
					return
				default:
				}
				if ids := matched(c, &m, ask{"api", "GET", "/a/b", "bob", ""}); !slices.Equal(ids, []string{"moves", "stays"}) {
					t.Errorf("rules %v apply", ids)
					return
				}
				c.List("m", 2)
				c.Get("stays")
			}
		})
	}
	for i := range 300 {
		put(Rule{ID: "moves", URL: []string{"/a/", "/a/b", "/{x}/b", "/a{/...}"}[i%4], Time: "sec", Requests: uint64(i)})
		put(Rule{ID: fmt.Sprint(i % 50), UID: "eve", URL: fmt.Sprintf("/a/%d", i), Time: "sec"})
		c.Delete(fmt.Sprint(i * 7 % 50))
	}
	close(stop)
	wg.Wait()
}

// A change does not wait while a set is compiled.
func TestReplaceKeepsNobodyWaiting(t *testing.T) {
	c := New(Options{})
	err := c.Replace(func(yield func(Rule, error) bool) {
		if err := c.Put(Rule{ID: "meanwhile", URL: "/a", Time: "sec"}); err != nil || c.Len() != 1 {
			t.Errorf("error %v, %d rules", err, c.Len())
		}
		yield(Rule{ID: "1", URL: "/a", Time: "sec"}, nil)
	})
	if _, ok := c.Get("meanwhile"); err != nil || ok || c.Len() != 1 || c.Generation() != 2 {
		t.Errorf("error %v, %d rules, generation %d", err, c.Len(), c.Generation())
	}
}

// The memory of changed rules is reclaimed, and no change is lost.
func TestClear(t *testing.T) {
	c := New(Options{})
	long := strings.Repeat("x", 3000)
	for round := range 12 {
		for i := range 100 {
			r := Rule{ID: fmt.Sprint(i), URL: fmt.Sprintf("/%s/%d/%d", long, round, i), Time: "sec", Requests: uint64(round)}
			if err := c.Put(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	for c.busy() {
		c.List("", 10)
	}
	c.mu.Lock()
	written := c.pool.written
	c.mu.Unlock()
	if c.Len() != 100 || c.Generation() != 1200 || written > 2<<20 {
		t.Errorf("%d rules, generation %d, %d bytes of text", c.Len(), c.Generation(), written)
	}
	fresh := New(Options{})
	if err := fresh.Replace(seq(c.List("", 1000))); err != nil || fresh.Hash() != c.Hash() {
		t.Errorf("error %v, hash %s, compiled anew %s", err, c.Hash(), fresh.Hash())
	}
	for _, r := range c.List("", 1000) {
		if r.Requests != 11 || !strings.HasSuffix(r.URL, "/11/"+r.ID) {
			t.Fatalf("rule %s is %s, %d", r.ID, r.URL[len(r.URL)-10:], r.Requests)
		}
	}
}

// busy reports whether memory is being reclaimed.
func (c *Catalog) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clearing != nil
}

func TestKeysTellRulesApart(t *testing.T) {
	c := New(Options{Domain: "api"})
	for _, r := range []Rule{
		{ID: "1", UID: "*", URL: "/a", Time: "sec"},
		{ID: "1:", UID: "*", URL: "/a", Time: "min"},
		{ID: "11", URL: "/a", Time: "sec"},
		{ID: "x", UID: "*", URL: "/b", Time: "sec"},
	} {
		if err := c.Put(r); err != nil {
			t.Fatal(err)
		}
	}
	var m Matched
	seen := map[string]string{}
	check := func(what string) {
		for i := range m.Len() {
			if key := string(m.AppendKey(nil, i)); seen[key] != "" {
				t.Errorf("%s has the key of %s", what, seen[key])
			} else {
				seen[key] = what
			}
		}
	}
	for _, user := range []string{"1", "11", ":1", "1:", strings.Repeat("1", 300), strings.Repeat("1", 301)} {
		for _, path := range []string{"/a", "/b"} {
			m.Reset()
			c.Match(&m, "api", []rule.Entry{{Key: "path", Value: path}, {Key: "user", Value: user}})
			if path == "/a" {
				m.hits = m.hits[1:] // one bucket for all users
			}
			check(user + path)
		}
	}
	for _, r := range []Rule{{ID: "1", UID: "*", URL: "/a", Time: "sec", Domain: "web"}, {ID: "1", UID: "*", URL: "/b", Time: "sec", Domain: "web"}} {
		if err := c.Put(r); err != nil {
			t.Fatal(err)
		}
		m.Reset()
		c.Match(&m, "web", []rule.Entry{{Key: "path", Value: r.URL}, {Key: "user", Value: "1"}})
		check(r.Domain + r.URL)
	}
}

func TestPathOptions(t *testing.T) {
	c := New(Options{Domain: "api", Paths: Paths{Case: true, TrailingSlash: true}})
	for i, url := range []string{"/Shop/", "/shop/Cart", "/shop/pay/{$}", "/Caf%C3%A9", "/"} {
		if err := c.Put(Rule{ID: fmt.Sprint(i), URL: url, Time: "sec"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Put(Rule{ID: "6", URL: "/SHOP/cart/{$}", Time: "sec"}); err == nil {
		t.Error("two spellings of one url")
	}
	var m Matched
	for path, want := range map[string]string{
		"/shop": "0", "/SHOP/": "0", "/shop/x/": "0", "/SHOP/CART/": "1", "/shop/%63art?x": "1", "/shop/pay": "2", "/shop/pay/": "2",
		"/CAF%c3%89": "3", "/x": "4", "/": "4",
	} {
		if got := matched(c, &m, ask{"api", "GET", path, "", ""}); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %v, want %s", path, got, want)
		}
	}
}

// A path that servers read differently is limited under each reading, once.
func TestUnclearPaths(t *testing.T) {
	c := New(Options{Domain: "api"})
	for id, url := range map[string]string{"admin": "/admin/", "a": "/a/{x}/{y...}", "any": "/"} {
		if err := c.Put(Rule{ID: id, URL: url, Time: "sec"}); err != nil {
			t.Fatal(err)
		}
	}
	var m Matched
	for path, want := range map[string]string{
		"/admin/x": "admin", "/a/..;/admin/x": "a admin", "/admin%2Fx": "admin any", "/%61dmin/x": "admin", "/a%5c../x": "any",
		"/a/%2F../../admin/x": "a admin", "//admin/admin/x": "admin", "/b/..%3B/%2e%2e/..;/admin/x": "admin any",
	} {
		if got := strings.Join(matched(c, &m, ask{"api", "GET", path, "", ""}), " "); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestMatchAllocatesNothing(t *testing.T) {
	c := New(Options{Domain: "api"})
	for i, uid := range []string{"all", "*", "plan:gold", "bob"} {
		if err := c.Put(Rule{ID: fmt.Sprint(i), UID: uid, URL: `GET /v1/{id:[0-9]+}/{x:[a-z]{2}}{/...}`, Time: "sec"}); err != nil {
			t.Fatal(err)
		}
	}
	var m Matched
	entries := []rule.Entry{{Key: "path", Value: "/v1/42/ab/c?q=1"}, {Key: "method", Value: "HEAD"}, {Key: "user", Value: "bob"}}
	var key []byte
	if n := testing.AllocsPerRun(100, func() {
		m.Reset()
		c.Match(&m, "api", entries)
		for i := range m.Len() {
			key = m.AppendKey(key[:0], i)
			m.Rule(i)
		}
	}); n != 0 && !testkit.Race || m.Len() != 2 {
		t.Errorf("%v allocations, %d rules", n, m.Len())
	}
}

// The cost of a call with many ambiguous paths is bounded: Match returns false for the rest. 1,000
// ordinary paths in one call are all matched.
func TestManyUnclearPaths(t *testing.T) {
	c := New(Options{Domain: "api"})
	if err := c.Put(Rule{ID: "any", URL: "/", Time: "sec"}); err != nil {
		t.Fatal(err)
	}
	for path, most := range map[string]int{"/a%20b/c%2Fd": 1000, strings.Repeat("/%252e%5c..", 20): 400} {
		var m Matched
		known := 0
		for range 1000 {
			if c.Match(&m, "api", []rule.Entry{{Key: "path", Value: path}}) {
				known++
			}
		}
		if known > most || most == 1000 && known < most || known == 0 {
			t.Errorf("%.20s: %d of 1000 known", path, known)
		}
		if m.Reset(); !c.Match(&m, "api", []rule.Entry{{Key: "path", Value: path}}) {
			t.Errorf("%.20s: not known in the next call", path)
		}
	}
}

// Match returns false for a path with too many readings.
func TestUnreadablePaths(t *testing.T) {
	c := New(Options{Domain: "api"})
	if err := c.Put(Rule{ID: "any", URL: "/", Time: "sec"}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"/a/b": true, "/a%2Fb;c=%41": true, "/a;b%2F..//c%252F.%2e/d;e": false, strings.Repeat("/%2f;", 1<<15): false,
	} {
		var m Matched
		if ok := c.Match(&m, "api", []rule.Entry{{Key: "path", Value: path}}); ok != want {
			t.Errorf("%.40s: %v, want %v", path, ok, want)
		}
		if !c.Match(&m, "web", []rule.Entry{{Key: "path", Value: path}}) {
			t.Errorf("%.40s: not known in a domain without rules", path)
		}
	}
}
