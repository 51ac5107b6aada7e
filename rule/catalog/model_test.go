package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"stint/rule"
	"stint/rule/catalog/order"
)

// model is a simple reference implementation of a catalog.
type model map[string]Rule

// applies returns the IDs of the rules that apply; it tries all rules.
func (m model) applies(domain, method, path, user, plan string) []string {
	var all, apart []Rule
	for _, r := range m {
		if r.Domain != domain || !covers(r.URL, method, path) {
			continue
		}
		switch kind, name := whose(r.UID); {
		case kind == everybody:
			all = append(all, r)
		case user != "" && rankOf(r.UID, user, plan) > 0:
			apart = append(apart, r)
		default:
			_ = name
		}
	}
	var ids []string
	for _, list := range [][]Rule{all, apart} {
		slices.SortFunc(list, func(a, b Rule) int {
			return cmp.Or(compareURLs(a.URL, b.URL), cmp.Compare(rankOf(b.UID, user, plan), rankOf(a.UID, user, plan)))
		})
		for _, r := range list {
			if compareURLs(r.URL, list[0].URL) == 0 && rankOf(r.UID, user, plan) == rankOf(list[0].UID, user, plan) {
				ids = append(ids, r.ID)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// rankOf returns how specific a uid is for a user; 0 if it does not apply.
func rankOf(uid, user, plan string) int {
	switch {
	case uid == "*":
		return 1
	case strings.HasPrefix(uid, "plan:"):
		if plan != "" && uid == "plan:"+plan {
			return 2
		}
	case uid == "user:"+user, uid == user && uid != "all" && uid != "" && !strings.HasPrefix(uid, "user:"):
		return 3
	}
	return 0
}

// covers reports whether a url matches a request, with a regular expression.
func covers(url, method, path string) bool {
	own, pattern, has := strings.Cut(url, " ")
	if !has {
		own, pattern = "", url
	}
	if own != "" && own != method && (own != "GET" || method != "HEAD") {
		return false
	}
	return expression(pattern).MatchString(path)
}

var expressions = map[string]*regexp.Regexp{}

func expression(pattern string) *regexp.Regexp {
	if known := expressions[pattern]; known != nil {
		return known
	}
	text := regexp.QuoteMeta(pattern)
	text = regexp.MustCompile(`\\\{\w+\\\.\\\.\\\.\\\}$|/$`).ReplaceAllStringFunc(text, func(s string) string {
		if s == "/" {
			return "/.*"
		}
		return ".*"
	})
	text = strings.Replace(text, `\{\$\}`, "", 1)
	text = strings.Replace(text, `\{/\.\.\.\}`, "(/.*)?", 1)
	text = regexp.MustCompile(`\\\{\w+:(.*?)\\\}`).ReplaceAllStringFunc(text, func(s string) string {
		inner := regexp.MustCompile(`^\\\{\w+:|\\\}$`).ReplaceAllString(s, "")
		return strings.NewReplacer(`\[`, "[", `\]`, "]", `\+`, "+", `\\`, `\`).Replace(inner)
	})
	text = regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(text, "[^/]+")
	expressions[pattern] = regexp.MustCompile("^" + text + "$")
	return expressions[pattern]
}

// compareURLs compares urls by the order that Rule documents, the most specific first.
func compareURLs(a, b string) int {
	x, y := steps(a), steps(b)
	return cmp.Compare(strings.Join(x, "\x00"), strings.Join(y, "\x00"))
}

// steps returns texts that sort like the url.
func steps(url string) []string {
	method, pattern, has := strings.Cut(url, " ")
	if !has {
		method, pattern = "", url
	}
	pattern, isBelow := strings.CutSuffix(pattern, "{/...}")
	var all []string
	parts := strings.Split(pattern[1:], "/")
	for i, p := range parts {
		switch {
		case p == "" && i == len(parts)-1, strings.HasSuffix(p, "...}"):
			all = append(all, "4")
		case p == "{$}":
			all = append(all, "1")
		case strings.HasPrefix(p, "{") && strings.Contains(p, ":"):
			_, class, _ := strings.Cut(p, ":")
			all = append(all, "2"+class)
		case strings.HasPrefix(p, "{"):
			all = append(all, "3")
		default:
			all = append(all, "1"+p)
		}
	}
	if isBelow {
		all = append(all, "5")
	} else {
		all = append(all, "0")
	}
	if method == "" {
		return append(all, "\x7f") // any method sorts after a named method
	}
	return append(all, "\x7e"+method)
}

var (
	someSegments = []string{"a", "b", "{x}", `{x:[0-9]+}`, `{x:[ab]+}`, "c"}
	someEnds     = []string{"", "/", "/{r...}", "/{$}", "{/...}"}
	someMethods  = []string{"", "", "GET ", "POST "}
	someUsers    = []string{"", "all", "*", "plan:gold", "plan:free", "42", "user:42", "user:all", "user:plan:gold", "bob"}
	someTimes    = []string{"sec", "minute", "1m", "hour"}
)

func pick(random *rand.Rand, from []string) string { return from[random.IntN(len(from))] }

func randomRule(random *rand.Rand, ids int) Rule {
	url := ""
	for i := range random.IntN(4) {
		url += "/" + strings.Replace(pick(random, someSegments), "x", fmt.Sprint("x", i), 1)
	}
	end := pick(random, someEnds)
	if url == "" && (end == "" || end == "{/...}") {
		end = "/"
	}
	return Rule{
		ID: fmt.Sprint(random.IntN(ids)), UID: pick(random, someUsers), URL: pick(random, someMethods) + url + end,
		Time: pick(random, someTimes), Requests: uint64(random.IntN(3)), Domain: pick(random, []string{"api", "web"}),
	}
}

type ask struct{ domain, method, path, user, plan string }

func randomAsk(random *rand.Rand) ask {
	path := ""
	for range random.IntN(5) {
		path += "/" + pick(random, []string{"a", "b", "c", "7", "42", "ab", "zz"})
	}
	if path == "" || random.IntN(4) == 0 {
		path += "/"
	}
	return ask{
		pick(random, []string{"api", "web", "none"}), pick(random, []string{"GET", "POST", "HEAD", "PUT", ""}), path,
		pick(random, []string{"", "42", "bob", "all", "plan:gold", "eve"}), pick(random, []string{"", "gold", "free", "none"}),
	}
}

// matched returns the IDs of the rules that apply.
func matched(c *Catalog, m *Matched, a ask) []string {
	m.Reset()
	c.Match(m, a.domain, []rule.Entry{{Key: "plan", Value: a.plan}, {Key: "user", Value: a.user}, {Key: "path", Value: a.path}, {Key: "method", Value: a.method}})
	var ids []string
	for i := range m.Len() {
		ids = append(ids, m.Rule(i).Name)
	}
	slices.Sort(ids)
	return ids
}

// After any series of puts and deletes, a catalog finds the same rules as a search through all
// rules, and keeps no memory of deleted ones.
func TestCatalogIsItsModel(t *testing.T) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 7))
		c, m, memory := New(Options{Domain: "api"}), model{}, new(Matched)
		for step := range 400 {
			r := randomRule(random, 60)
			switch _, known := m[r.ID]; {
			case random.IntN(3) == 0:
				if c.Delete(r.ID) != known {
					t.Fatalf("seed %d: deleting %s, known %v", seed, r.ID, known)
				}
				delete(m, r.ID)
			default:
				err := c.Put(r)
				if twin := m.twin(r); (err == nil) != (twin == "") {
					t.Fatalf("seed %d: putting %+v beside %q: %v", seed, r, twin, err)
				}
				if err == nil {
					m[r.ID] = r
				}
			}
			for range 5 {
				a := randomAsk(random)
				if got, want := matched(c, memory, a), m.applies(a.domain, a.method, a.path, a.user, a.plan); !slices.Equal(got, want) {
					t.Fatalf("seed %d, step %d: %+v: rules %v apply, want %v\n%v", seed, step, a, got, want, slices.Collect(maps.Values(m)))
				}
			}
			if step%50 == 0 {
				sameAsFresh(t, c, m, random)
			}
		}
		for id := range m {
			c.Delete(id)
		}
		isClean(t, c)
	}
}

// twin returns the ID of another rule with the same domain, url, uid and time.
func (m model) twin(r Rule) string {
	per := func(r Rule) any { d, _ := parseTime(r.Time); return d }
	whom := func(r Rule) string { k, n := whose(r.UID); return fmt.Sprint(k, strings.TrimPrefix(n, "all")) }
	for _, o := range m {
		if o.ID != r.ID && o.Domain == r.Domain && whom(o) == whom(r) && compareURLs(o.URL, r.URL) == 0 && per(o) == per(r) {
			return o.ID
		}
	}
	return ""
}

// sameAsFresh compares a catalog with one that is compiled from the model.
func sameAsFresh(t *testing.T, c *Catalog, m model, random *rand.Rand) {
	t.Helper()
	rules := slices.Collect(maps.Values(m))
	random.Shuffle(len(rules), func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
	fresh := New(Options{Domain: "api"})
	if err := fresh.Replace(seq(rules)); err != nil {
		t.Fatal(err)
	}
	if c.Hash() != fresh.Hash() || c.Len() != fresh.Len() || c.Len() != len(m) {
		t.Fatalf("hash %s, %d rules; compiled anew %s, %d; want %d", c.Hash(), c.Len(), fresh.Hash(), fresh.Len(), len(m))
	}
	ids := slices.Sorted(maps.Keys(m))
	for _, one := range []*Catalog{c, fresh} {
		var listed []string
		for page := one.List("", 7); len(page) > 0; page = one.List(listed[len(listed)-1], 7) {
			for _, r := range page {
				listed = append(listed, r.ID)
				if r != m[r.ID] {
					t.Fatalf("listed %+v, want %+v", r, m[r.ID])
				}
			}
		}
		if !slices.Equal(listed, ids) {
			t.Fatalf("listed %v, want %v", listed, ids)
		}
	}
	for id, want := range m {
		if got, ok := c.Get(id); !ok || got != want {
			t.Fatalf("rule %s is %+v, want %+v", id, got, want)
		}
	}
	if _, ok := c.Get("none"); ok {
		t.Fatal("a rule that nobody put")
	}
}

func seq(rules []Rule) func(func(Rule, error) bool) {
	return func(yield func(Rule, error) bool) {
		for _, r := range rules {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// isClean checks that an empty catalog has no nodes, leaves or texts left.
func isClean(t *testing.T, c *Catalog) {
	t.Helper()
	v := c.current.Load()
	free := [3]uint32{}
	for i := v.free.nodes; i != 0; i = v.nodes.at(i).sibling {
		free[0]++
	}
	for i := v.free.leaves; i != 0; i = v.leaves.at(i).next {
		free[1]++
	}
	for i := v.free.rules; i != 0; i = v.rules.at(i).next {
		free[2]++
	}
	if size := unsafe.Sizeof(node{}); size != 64 {
		t.Errorf("a node has %d bytes", size)
	}
	if size := unsafe.Sizeof(record{}); size != 32 {
		t.Errorf("a rule has %d bytes", size)
	}
	if want := [3]uint32{v.nodes.n - 1, v.leaves.n - 1, v.rules.n - 1}; free != want {
		t.Errorf("%v of %v nodes, leaves and rules are free", free, want)
	}
	if v.literal.used != 0 || v.owned.used != 0 || v.order.At(order.Place{}) != 0 || len(v.domains) != 0 || v.count != 0 || v.sum != (sum{}) {
		t.Errorf("left behind: %d literals, %d owners, first rule %d, %d domains, %d rules, sum %v",
			v.literal.used, v.owned.used, v.order.At(order.Place{}), len(v.domains), v.count, v.sum)
	}
	if v.garbage != c.pool.written && v.garbage == 0 {
		t.Errorf("no garbage of %d bytes", c.pool.written)
	}
}
