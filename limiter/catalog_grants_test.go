package limiter

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"stint"
	"stint/rule/catalog"
	"stint/store/memory"
)

var catalogSeed = flag.Uint64("limiter.seed", 0, "seed of the random changes of a catalog, as a failure printed it; 0: another one each run")

// plansAndCatalog are rules of a limit of plans. The plan pro is left out now and then.
const plansAndCatalog = `
domain: api
plans:
  free: {api: {requests: 10, per: 1h}}
  bare: {other: {requests: 1, per: 1h}}
  pro: {api: {requests: 50, per: 1h}}
default_plan: free
descriptors: [{key: user, rate_limit: [{plan: api, name: calls}]}]
`

// counted is how much is used of each limit of a plan, grant and rule of the catalog, by its name.
type counted map[string]int64

// changing is a limiter whose plans, grants and catalog change, with a naive count beside it.
type changing struct {
	*testing.T
	*rand.Rand
	l       *Limiter
	f       *fake
	catalog *catalog.Catalog
	has     string // what the rules have: "pro", "no pro" or "no limit"

	used  counted
	rules map[string]int64 // of the catalog, by ID
	done  []change
	text  strings.Builder
}

// change is an allowed request that can be undone.
type change struct {
	v    *Verdict
	used counted
}

// capacity returns the limit of a user's plan; -1: it has none.
func (c *changing) capacity(user string) int64 {
	switch plan := c.f.subjects["user="+user].plan; {
	case plan == "" || plan == "free":
		return 10
	case plan == "pro" && c.has == "pro":
		return 50
	}
	return -1
}

// take returns what a request of a user uses, by the naive count; nil if it is denied.
func (c *changing) take(user string, cost int64) counted {
	used, rest := counted{}, cost
	use := func(name string, most int64) {
		units := min(rest, max(0, most-c.used[name]))
		used[name] += units
		rest -= units
	}
	grants := c.f.subjects["user="+user].grants["api"]
	if capacity := c.capacity(user); c.has != "no limit" {
		if capacity < 0 {
			return nil
		}
		for _, g := range grants {
			if g.Priority < 100 {
				use(user+" "+g.ID, g.Units)
			}
		}
		use(user, capacity)
		for _, g := range grants {
			if g.Priority >= 100 {
				use(user+" "+g.ID, g.Units)
			}
		}
		if rest > 0 {
			return nil
		}
	}
	for id, key := range map[string]string{"all": "all", "each": "each " + user, "one": "one " + user} {
		most, found := c.rules[id]
		if _, own := c.rules["one"]; !found || id == "one" && user != "b" || id == "each" && user == "b" && own {
			continue
		}
		if c.used[key]+cost > most {
			return nil
		}
		used[key] += cost
	}
	return used
}

// request compares a request with the naive count.
func (c *changing) request() {
	user, cost, v := []string{"a", "b", "c"}[c.IntN(3)], int64(1+c.IntN(13)), new(Verdict)
	want := c.take(user, cost)
	decided(c.T, c.l, v, Request{Descriptors: []Descriptor{described(uint32(cost), "user", user), described(uint32(cost), "path", "/v1/x", "user", user)}})
	fmt.Fprintf(&c.text, "%s takes %d: %v, want %v\n", user, cost, v.Allowed, want)
	if v.Allowed != (want != nil) {
		c.Fatal(c.text.String())
	}
	if want == nil {
		return
	}
	for name, units := range want {
		c.used[name] += units
	}
	c.done = append(c.done, change{v, want})
}

// undo gives a request back.
func (c *changing) undo() {
	if len(c.done) == 0 {
		return
	}
	i := c.IntN(len(c.done))
	fmt.Fprintf(&c.text, "undo %v\n", c.done[i].used)
	if err := c.l.Undo(c.Context(), c.done[i].v); err != nil {
		c.Fatal(err)
	}
	for name, units := range c.done[i].used {
		c.used[name] -= units
	}
	c.done = slices.Delete(c.done, i, i+1)
}

// rule deletes a rule of the catalog, or puts it there.
func (c *changing) rule() {
	id := []string{"all", "each", "one"}[c.IntN(3)]
	if _, found := c.rules[id]; found && c.IntN(2) == 0 {
		c.catalog.Delete(id)
		delete(c.rules, id)
	} else {
		c.rules[id] = map[string]int64{"all": 150, "each": 25, "one": 40}[id] + int64(c.IntN(30))
		row := fmt.Sprintf("%s,%s,/v1/,hour,%d", id, map[string]string{"all": "all", "each": "*", "one": "b"}[id], c.rules[id])
		if err := c.catalog.Put(ruleOf(c.T, row)); err != nil {
			c.Fatal(err)
		}
	}
	fmt.Fprintf(&c.text, "rules of the catalog %v\n", c.rules)
}

// client changes the plan or the grants of a user.
func (c *changing) client() {
	user := "user=" + []string{"a", "b", "c"}[c.IntN(3)]
	if c.IntN(2) == 0 {
		c.f.plan(user, []string{"", "free", "pro", "bare"}[c.IntN(4)])
	} else {
		var all []Grant
		for _, g := range []Grant{grantFor("early", 6, 50), grantFor("late", int64(5+c.IntN(9)), 200)} {
			g.Until = stint.MaxInstant
			if c.IntN(3) > 0 {
				all = append(all, g)
			}
		}
		c.f.grant(user, "api", all...)
	}
	fmt.Fprintf(&c.text, "%s: %+v\n", user, c.f.subjects[user])
}

// reload replaces the rules: by all of them, or without the plan pro or the limit of the plans.
func (c *changing) reload() {
	yaml := plansAndCatalog
	switch c.has = []string{"pro", "no pro", "no limit"}[c.IntN(3)]; c.has {
	case "no pro":
		yaml = strings.Replace(yaml, "pro:", "gone:", 1)
	case "no limit":
		yaml = strings.Replace(yaml, "key: user", "key: nobody", 1)
	}
	c.l.Swap(table(c.T, yaml))
	fmt.Fprintf(&c.text, "the rules have: %s\n", c.has)
}

// Clients with grants move between plans that go and come back, beside rules of a catalog that are deleted and
// restored among many others. All keep their counts, and a request is charged to all of them or to none.
func TestGrantsBesideCatalog(t *testing.T) {
	seed := *catalogSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -args -limiter.seed=%d", seed)
	among := catalog.New(catalog.Options{Domain: "api"})
	for i := range 3000 {
		if err := among.Put(ruleOf(t, fmt.Sprintf("n%d,*,/v2/%d,hour,1", i, i))); err != nil {
			t.Fatal(err)
		}
	}
	r := rand.New(rand.NewPCG(seed, 0))
	for range 30 {
		c := &changing{T: t, Rand: r, f: newFake(), catalog: among, has: "pro", used: counted{}, rules: map[string]int64{}}
		store := memory.New(memory.Options{Clock: func() stint.Instant { return noon }})
		c.l = New(store, table(t, plansAndCatalog), Options{Catalog: c.catalog, Records: c.f})
		for range 200 {
			switch c.IntN(12) {
			case 0:
				c.undo()
			case 1, 2:
				c.rule()
			case 3, 4:
				c.client()
			case 5:
				c.reload()
			default:
				c.request()
			}
		}
		for id := range c.rules {
			c.catalog.Delete(id)
		}
	}
}
