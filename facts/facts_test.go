package facts

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stint"
	"stint/limiter"
	"stint/rule"
	"stint/rule/catalog"
	"stint/store/memory"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// world is a limiter with facts, on a clock that stands still.
type world struct {
	*testing.T
	facts   *Facts
	limiter *limiter.Limiter
	now     time.Time
}

func newWorld(t *testing.T, yaml string, o Options) *world {
	t.Helper()
	w := &world{T: t, now: noon}
	o.Now = func() time.Time { return w.now }
	if o.Node == "" {
		o.Node = "a"
	}
	f, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	rules := table(t, yaml)
	f.Reloaded(rules, true)
	ended, end := context.WithCancel(t.Context())
	end()
	f.Run(ended) // Close writes the state file only after it
	store := memory.New(memory.Options{Budget: 64 << 20, Clock: func() stint.Instant { return stint.At(w.now) }})
	w.facts, w.limiter = f, limiter.New(store, rules, limiter.Options{Observer: f})
	return w
}

// ask asks for a cost of pairs of keys and values, and reports whether it passes.
func (w *world) ask(cost uint32, pairs ...string) bool {
	w.Helper()
	return w.askAs("", cost, pairs...)
}

func (w *world) askAs(id string, cost uint32, pairs ...string) bool {
	w.Helper()
	d := limiter.Descriptor{Cost: cost}
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, rule.Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	var v limiter.Verdict
	if err := w.limiter.Decide(context.Background(), &limiter.Request{Domain: "api", ID: id, Descriptors: []limiter.Descriptor{d}}, &v); err != nil {
		w.Fatal(err)
	}
	return v.Allowed
}

func (w *world) rule(name string) Rule {
	w.Helper()
	s := w.facts.Summary(context.Background())
	i := slices.IndexFunc(s.Rules, func(r Rule) bool { return r.Name == name })
	if i < 0 {
		w.Fatalf("no rule %s in %+v", name, s.Rules)
	}
	return s.Rules[i]
}

const threeRules = `
domain: api
descriptors:
  - key: user
    show: true
    rate_limit: {per: 1m, requests: 5}
  - key: quiet
    shadow_mode: true
    rate_limit: {per: 1m, requests: 1}
  - key: soft
    rate_limit: {per: 1m, requests: 10, soft: 50%}
`

// Counts are those of each rule: of one in shadow mode what it would do, and looks apart.
func TestCounts(t *testing.T) {
	w := newWorld(t, threeRules, Options{})
	for range 7 {
		w.ask(1, "user", "42")
	}
	w.ask(0, "user", "42")
	for range 3 {
		if !w.ask(1, "quiet", "q") {
			t.Fatal("a rule in shadow mode denied")
		}
	}
	for range 16 {
		w.ask(1, "soft", "s")
	}
	for name, want := range map[string]Counts{
		"api/user": {Allowed: 5, Denied: 2, Looks: 1}, "api/quiet": {Allowed: 1, Denied: 2}, "api/soft": {Allowed: 15, Denied: 1, Over: 5},
	} {
		if got := w.rule(name); got.Counts != want || got.Keys != 1 || !got.First.Equal(noon) || !got.Last.Equal(noon) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	if !w.rule("api/quiet").Shadow || w.rule("api/user").Shadow {
		t.Error("the wrong rules are in shadow mode")
	}
}

// All rules per API of a domain have one set of facts.
func TestCatalogSharesOneSet(t *testing.T) {
	rules := catalog.New(catalog.Options{Domain: "api"})
	for _, r := range []catalog.Rule{
		{ID: "1", UID: "u", URL: "/a", Time: "1m", Requests: 1, Domain: "api"},
		{ID: "2", UID: "u", URL: "/b", Time: "1m", Requests: 1, Domain: "api"},
	} {
		if err := rules.Put(r); err != nil {
			t.Fatal(err)
		}
	}
	f, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	f.Reloaded(nil, true)
	l := limiter.New(memory.New(memory.Options{Budget: 1 << 20}), nil, limiter.Options{Observer: f, Catalog: rules})
	var v limiter.Verdict
	for _, url := range []string{"/a", "/a", "/b"} {
		entries := []rule.Entry{{Key: catalog.UserKey, Value: "u"}, {Key: "path", Value: url}}
		if err := l.Decide(context.Background(), &limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{{Entries: entries, Cost: 1}}}, &v); err != nil {
			t.Fatal(err)
		}
	}
	s := f.Summary(context.Background())
	if len(s.Rules) != 1 || s.Rules[0].Name != CatalogRule || s.Rules[0].Counts != (Counts{Allowed: 2, Denied: 1}) {
		t.Errorf("%+v", s.Rules)
	}
}

// A key is listed with its counts, exact while there is little traffic, and shown as its hash, which is that of
// the key of its take.
func TestTop(t *testing.T) {
	w := newWorld(t, threeRules, Options{Secret: []byte("a secret of the namespace")})
	for user, n := range map[string]int{"ann": 9, "bob": 30, "eve": 6} {
		for range n {
			w.ask(1, "user", user)
		}
	}
	top := w.facts.Top(context.Background(), Of{Rule: "api/user"}, ByDenied, 2)
	if len(top) != 2 || top[0].Entries[0].Value != "bob" || top[0].Denied != 25 || top[0].Allowed != 5 || top[0].Error != 0 || top[1].Denied != 4 {
		t.Fatalf("%+v", top)
	}
	var v limiter.Verdict
	req := limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{{Entries: []rule.Entry{{Key: "user", Value: "bob"}}}}}
	if err := w.limiter.Decide(context.Background(), &req, &v); err != nil {
		t.Fatal(err)
	}
	id := w.facts.ID(v.Take(0).Key)
	if id != top[0].ID || len(id) != 32 {
		t.Errorf("the key is %s and is listed as %s", id, top[0].ID)
	}
	if found := w.facts.Find(context.Background(), id); len(found) != 1 || found[0].Denied != 25 {
		t.Errorf("found %+v", found)
	}
	if found := w.facts.Find(context.Background(), "0"); len(found) != 0 {
		t.Errorf("found %+v", found)
	}
	other := newWorld(t, threeRules, Options{Secret: []byte("another secret")})
	if other.facts.ID(v.Take(0).Key) == id {
		t.Error("the hash does not depend on the secret")
	}
	w.now = w.now.Add(generation)
	w.facts.Flush()
	if top := w.facts.Top(context.Background(), Of{}, ByDenied, 1); len(top) != 1 || top[0].Denied != 25 {
		t.Errorf("the previous generation is not shown: %+v", top)
	}
	w.now = w.now.Add(generation)
	w.facts.Flush()
	if top := w.facts.Top(context.Background(), Of{}, ByDenied, 1); len(top) != 0 {
		t.Errorf("the generation before the previous one is shown: %+v", top)
	}
}

// exchange is an Exchange in memory.
type exchange struct {
	mu  sync.Mutex
	all map[string][]byte
}

func (e *exchange) Publish(_ context.Context, node string, data []byte, _ time.Duration) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == nil {
		e.all = map[string][]byte{}
	}
	e.all[node] = data
	return nil
}

func (e *exchange) Read(context.Context) (map[string][]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[string][]byte{"junk": []byte("not a summary")}
	maps.Copy(all, e.all)
	return all, nil
}

// Nodes add up: counts, keys by their hash, and different keys. A node with another secret adds its counts,
// and none of its keys.
func TestNodes(t *testing.T) {
	var e exchange
	secret := []byte("a secret of the namespace")
	a := newWorld(t, threeRules, Options{Node: "a", Exchange: &e, Secret: secret})
	b := newWorld(t, threeRules, Options{Node: "b", Exchange: &e, Secret: secret})
	c := newWorld(t, threeRules, Options{Node: "c", Exchange: &e})
	for i := range 100 {
		a.ask(1, "user", fmt.Sprint(i))
		b.ask(1, "user", fmt.Sprint(i+50))
	}
	for range 9 {
		a.ask(1, "user", "7")
		b.ask(1, "user", "7")
		c.ask(1, "user", "7")
	}
	for _, w := range []*world{a, b, c} {
		w.facts.publish(context.Background())
	}
	r := a.rule("api/user")
	if r.Counts != (Counts{Allowed: 214, Denied: 13}) { // 7 passes 5 times on each node
		t.Errorf("%+v", r.Counts)
	}
	if r.Keys < 145 || r.Keys > 155 {
		t.Errorf("%d keys, want 150", r.Keys)
	}
	s := a.facts.Summary(context.Background())
	if len(s.Nodes) != 3 || s.Nodes[0].Name != "a" {
		t.Errorf("%+v", s.Nodes)
	}
	counts := a.facts.Counts(context.Background())
	for i := range s.Rules { // Counts has the same but for keys and peaks
		s.Rules[i].Keys, s.Rules[i].Peaks = 0, Peaks{}
	}
	if !reflect.DeepEqual(counts, s) {
		t.Errorf("counts %+v\nof %+v", counts, s)
	}
	top := a.facts.Top(context.Background(), Of{}, ByDenied, 5)
	if len(top) != 1 || top[0].Denied != 9 || top[0].Allowed != 10 || !slices.Equal(top[0].Nodes, []string{"a", "b"}) {
		t.Errorf("%+v", top)
	}
}

// Peaks of a node that still has other numbers are not those of the limit; its counts are added.
func TestNodesOfOtherLimits(t *testing.T) {
	var e exchange
	a := newWorld(t, strings.ReplaceAll(threeRules, "requests: 5", "requests: 50"), Options{Node: "a", Exchange: &e})
	b := newWorld(t, threeRules, Options{Node: "b", Exchange: &e})
	for _, w := range []*world{a, b} {
		for range 10 {
			w.ask(1, "user", "42")
		}
		w.facts.Flush()
		w.now = w.now.Add(generation)
		w.facts.Flush() // ends the period
	}
	b.facts.publish(context.Background())
	if r := a.rule("api/user"); r.Allowed != 15 || r.Denied != 5 || r.Peaks.Sampled != 1 || r.Peaks.DeniedKeys != 0 || r.Peaks.P99 > 0.3 {
		t.Errorf("%+v", r)
	}
}

// denier is a store that denies keys by their number.
type denier struct{ deny func(key stint.Key) bool }

func (d denier) Decide(_ context.Context, call *stint.Call) error {
	call.Results = call.Results[:0]
	for _, t := range call.Takes {
		r := stint.Decision{Allowed: !d.deny(t.Key), Limit: 10, Remaining: 5, At: stint.At(noon)}
		call.Results = append(call.Results, r)
	}
	return nil
}

// flood sends n denied requests to three nodes: 40 busy keys with more than a thousandth of all requests each,
// and else keys that never return. It returns the true counts of the busy keys. A flush comes after every
// so many requests.
func flood(t *testing.T, nodes []*Facts, n, flush int) map[string]uint64 {
	t.Helper()
	rules := table(t, denying)
	var limiters []*limiter.Limiter
	for _, f := range nodes {
		f.Reloaded(rules, true)
		limiters = append(limiters, limiter.New(denier{func(stint.Key) bool { return true }}, rules, limiter.Options{Observer: f}))
	}
	truth := map[string]uint64{}
	r := rand.New(rand.NewPCG(1, 2))
	v := make([]limiter.Verdict, 4)
	req := limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{{Entries: make([]rule.Entry, 1), Cost: 1}}}
	for i := range n {
		user := fmt.Sprintf("once-%d", i)
		if x := r.Float64(); x < 0.4 {
			// Shares of 2.5 % down to 0.5 %.
			user = fmt.Sprintf("busy-%d", int(40*math.Pow(r.Float64(), 1.5)))
			truth[user]++
		}
		req.Descriptors[0].Entries[0] = rule.Entry{Key: "user", Value: user}
		if err := limiters[i%len(limiters)].Decide(context.Background(), &req, &v[r.IntN(len(v))]); err != nil {
			t.Fatal(err)
		}
		if i%flush == flush-1 {
			for _, f := range nodes {
				f.Flush()
			}
		}
	}
	return truth
}

// checkFlood checks that the 20 most denied keys of all nodes together are found, each within 5 %, and how many
// different keys there were.
func checkFlood(t *testing.T, n, flush int) {
	t.Helper()
	var e exchange
	now := noon
	var nodes []*Facts
	for i := range 3 {
		f, err := New(Options{Node: string(rune('a' + i)), Secret: []byte("shared"), Exchange: &e, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, f)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	truth := flood(t, nodes, n, flush)
	runtime.GC()
	runtime.ReadMemStats(&after)
	perNode := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / 3
	for _, f := range nodes {
		f.publish(context.Background())
	}
	names := make([]string, 0, len(truth))
	for name := range truth {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return int(int64(truth[b]) - int64(truth[a])) })
	rules := table(t, denying)
	top := nodes[0].Top(context.Background(), Of{}, ByDenied, 40)
	worst := 0.0
	for _, name := range names[:20] {
		id := nodes[0].ID(stint.Key(rules.Rules()[0].AppendKey([]byte("r"), []rule.Entry{{Key: "user", Value: name}})))
		i := slices.IndexFunc(top, func(k Key) bool { return k.ID == id })
		if i < 0 {
			t.Fatalf("%s with %d denials is not listed", name, truth[name])
		}
		off := float64(top[i].Denied)/float64(truth[name]) - 1
		if worst = max(worst, math.Abs(off)); math.Abs(off) > 0.05 {
			t.Errorf("%s: %d denials, listed with %d (%+.1f %%), error %d", name, truth[name], top[i].Denied, 100*off, top[i].Error)
		}
	}
	s := nodes[0].Summary(context.Background()).Rules[0]
	distinct := float64(n) - float64(sum(truth)) + float64(len(truth))
	if s.Denied != uint64(n) || math.Abs(float64(s.Keys)/distinct-1) > 0.065 {
		t.Errorf("%d denied of %d; %d keys of %.0f", s.Denied, n, s.Keys, distinct)
	}
	t.Logf("%d requests, %.0f keys: worst count of the top 20 %.2f %% off, %d keys estimated, %d KiB a node", n, distinct, 100*worst, s.Keys, perNode>>10)
	if perNode > 50<<20 {
		t.Errorf("%d bytes a node", perNode)
	}
}

func sum(counts map[string]uint64) (n uint64) {
	for _, c := range counts {
		n += c
	}
	return n
}

var long = flag.Bool("facts.long", false, "a flood of 25 million requests of 15 million keys")

func TestFlood(t *testing.T) {
	if *long {
		checkFlood(t, 25_000_000, 10_000)
		return
	}
	checkFlood(t, 1_000_000, 10_000)
}

// All at once, while rules are reloaded and facts are read: no count is lost.
func TestConcurrent(t *testing.T) {
	rules := table(t, threeRules)
	f, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	f.Reloaded(rules, true)
	l := limiter.New(memory.New(memory.Options{Budget: 1 << 20}), rules, limiter.Options{Observer: f})
	const callers, each = 8, 5000
	var group sync.WaitGroup
	for c := range callers {
		group.Go(func() {
			var v limiter.Verdict
			for i := range each {
				req := limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{{Entries: []rule.Entry{{Key: "user", Value: fmt.Sprint(i % (10 + c))}}, Cost: 1}}}
				if err := l.Decide(context.Background(), &req, &v); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		next := table(t, threeRules)
		f.Reloaded(next, false)
		l.Swap(next)
		f.Summary(context.Background())
		f.Top(context.Background(), Of{}, ByAllowed, 10)
		f.Denials(10, nil)
		f.History(Of{}, Minute)
	}
	group.Wait()
	s := f.Summary(context.Background())
	if got := s.Rules[0].Allowed + s.Rules[0].Denied; got != callers*each {
		t.Errorf("%d decisions counted, want %d", got, callers*each)
	}
}

// A decision with facts allocates nothing.
func TestObserverAllocatesNothing(t *testing.T) {
	for name, yaml := range map[string]string{"allowed": allowing, "denied": denying} {
		w := newWorld(t, yaml, Options{})
		req := limiter.Request{Domain: "api", ID: "id", Descriptors: []limiter.Descriptor{{Entries: []rule.Entry{{Key: "user", Value: "42"}}, Cost: 1}}}
		var v limiter.Verdict
		decide := func() {
			if err := w.limiter.Decide(context.Background(), &req, &v); err != nil {
				t.Fatal(err)
			}
		}
		decide()
		if n := testing.AllocsPerRun(1000, decide); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
