package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"stint/facts"
	"stint/internal/system"
	"stint/internal/text"
	"stint/internal/web"
	"stint/rule"
)

// AlarmKind is what is silently wrong.
type AlarmKind string

// The kinds of alarms.
const (
	AlarmOneKey        AlarmKind = "one_key"             // all requests of a rule fall on one key
	AlarmForwarded     AlarmKind = "untrusted_forwarded" // forwarded headers from a peer that is no trusted proxy
	AlarmUnknownDomain AlarmKind = "unknown_domain"      // calls with a domain that no rule file has
	AlarmEvicted       AlarmKind = "evicted_over_limit"  // memory is full: keys over their limit got it anew
	AlarmUnmatched     AlarmKind = "unmatched_rule"      // no request matched a rule for a day
)

// alarmKinds are all kinds, in the order in which alarms are shown.
var alarmKinds = []AlarmKind{AlarmEvicted, AlarmOneKey, AlarmForwarded, AlarmUnknownDomain, AlarmUnmatched}

const (
	checkAlarmsEvery = 10 * time.Second

	// alarmWindow is the time whose events count. An alarm about events ends when there were none for
	// so long.
	alarmWindow = 10 * time.Minute

	// fewestOfOne is the fewest requests of a rule in the window for which one key is an alarm.
	fewestOfOne = 1000

	// unmatchedFor is how long no request must match a rule.
	unmatchedFor = 24 * time.Hour

	// mostNames is how many domains and peers are counted by their names in a window; all others
	// together are one more. mostAlarms is the most alarms of one kind that are listed and logged.
	mostNames  = 16
	mostAlarms = 50
)

// Alarm is one thing that is silently wrong: nobody gets an error, and yet limits do not do what the
// operator thinks.
type Alarm struct {
	Kind   AlarmKind `json:"kind"`
	Domain string    `json:"domain,omitempty"`
	Rule   string    `json:"rule,omitempty"`
	Count  uint64    `json:"count"` // of requests, or keys, in the last ten minutes
	Since  time.Time `json:"since"` // when the alarm began
	Text   string    `json:"text"`
	Hint   string    `json:"hint"`

	about string // distinguishes alarms of one kind
}

// AlarmOptions are what alarms are about.
type AlarmOptions struct {
	// Facts returns what is known about the rules; nil: nothing.
	Facts func(context.Context) facts.Summary

	// Table returns the rules in force.
	Table func() *rule.Table

	// Evicted returns how many keys over their limit the store in memory has evicted since the start.
	Evicted func() uint64

	// Report is called for unknown domains and keys too, see Alarms.Unknown; nil: nothing.
	Report func(domain, keys string)

	// Log gets a line when an alarm begins, and one when it ends. It must not be nil.
	Log *slog.Logger

	// Now is the clock, for tests. Nil: time.Now.
	Now func() time.Time
}

// Alarms watches for what is silently wrong. It is safe for concurrent use.
type Alarms struct {
	options AlarmOptions

	mu      sync.Mutex // guards the fields below
	unknown names      // calls by domain
	peers   names      // requests by peer
	evicted tally
	before  uint64 // evicted at the last check
	rules   map[[2]string]*watchedRule
	nodes   string // whose requests those of the rules are
	active  map[alarmID]*Alarm
}

// alarmID identifies an alarm over time.
type alarmID struct {
	kind         AlarmKind
	domain, rule string
	about        string
}

// watchedRule is what was seen of a rule.
type watchedRule struct {
	seen     time.Time // when the rule was first there
	requests tally
	before   uint64 // requests at the last check
}

// NewAlarms returns alarms of which none is active.
func NewAlarms(o AlarmOptions) *Alarms {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Alarms{options: o, rules: map[[2]string]*watchedRule{}, active: map[alarmID]*Alarm{}}
}

// Run looks for alarms until ctx is done.
func (a *Alarms) Run(ctx context.Context) {
	system.Every(ctx, checkAlarmsEvery, func() { a.Check(ctx) })
}

// Unknown counts a call with an unknown domain, see limiter.Options.Unknown. Unknown keys of a known
// domain are no alarm.
func (a *Alarms) Unknown(domain, keys string) {
	if a.options.Report != nil {
		a.options.Report(domain, keys)
	}
	if keys != "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unknown.add(a.options.Now(), domain)
}

// forwarded are the headers in which a proxy names its client.
var forwarded = []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip"}

// Forwarded returns a handler that counts requests with a forwarded header from peers that are not
// trusted, and passes all on to next.
func (a *Alarms) Forwarded(next http.Handler, trusted []netip.Prefix) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.ContainsFunc(forwarded, func(name string) bool { return r.Header[name] != nil }) {
			a.countPeer(web.PeerAddr(r.RemoteAddr), trusted)
		}
		next.ServeHTTP(w, r)
	})
}

// Misuse returns a function for wrong calls of proxies that counts those from peers that are not trusted,
// and passes all on to next.
func (a *Alarms) Misuse(next func(peer netip.Addr, problem, hint string), trusted []netip.Prefix) func(peer netip.Addr, problem, hint string) {
	return func(peer netip.Addr, problem, hint string) {
		a.countPeer(peer, trusted)
		next(peer, problem, hint)
	}
}

// countPeer counts a request of a peer that is not trusted.
func (a *Alarms) countPeer(peer netip.Addr, trusted []netip.Prefix) {
	if !peer.IsValid() || slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(peer) }) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.peers.add(a.options.Now(), peer.String())
}

// List returns the active alarms, the newest of each kind first.
func (a *Alarms) List() []Alarm {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := make([]Alarm, 0, len(a.active))
	for _, one := range a.active {
		list = append(list, *one)
	}
	slices.SortFunc(list, func(x, y Alarm) int {
		return cmp.Or(cmp.Compare(slices.Index(alarmKinds, x.Kind), slices.Index(alarmKinds, y.Kind)),
			y.Since.Compare(x.Since), strings.Compare(x.Domain+x.Rule+x.about, y.Domain+y.Rule+y.about))
	})
	return list
}

// Check looks for alarms now. Run calls it.
func (a *Alarms) Check(ctx context.Context) {
	var known facts.Summary
	if a.options.Facts != nil {
		known = a.options.Facts(ctx)
	}
	a.mu.Lock()
	now := a.options.Now()
	found := slices.Concat(a.evictedLocked(now, &known), a.rulesLocked(now, &known), a.forwardedLocked(now), a.unknownLocked(now))
	begun, ended := a.updateLocked(now, found)
	a.mu.Unlock()
	for _, one := range begun {
		a.options.Log.Warn("alarm: "+one.Text, "alarm", string(one.Kind), "hint", one.Hint)
	}
	for _, one := range ended {
		a.options.Log.Info("alarm ended: "+one.Text, "alarm", string(one.Kind))
	}
}

// updateLocked replaces the active alarms and returns those that began and ended.
func (a *Alarms) updateLocked(now time.Time, found []Alarm) (begun, ended []Alarm) {
	last := a.active
	a.active = map[alarmID]*Alarm{}
	listed := map[AlarmKind]int{}
	for i := range found {
		one := &found[i]
		id := alarmID{one.Kind, one.Domain, one.Rule, one.about}
		if listed[one.Kind]++; listed[one.Kind] > mostAlarms {
			continue
		}
		if one.Since = now; last[id] != nil {
			one.Since = last[id].Since
		} else {
			begun = append(begun, *one)
		}
		a.active[id] = one
		delete(last, id)
	}
	for _, id := range slices.SortedFunc(maps.Keys(last), func(x, y alarmID) int { return strings.Compare(x.rule+x.about, y.rule+y.about) }) {
		ended = append(ended, *last[id])
	}
	return begun, ended
}

// evictedLocked finds evictions of keys over their limit.
func (a *Alarms) evictedLocked(now time.Time, known *facts.Summary) []Alarm {
	if a.options.Evicted == nil {
		return nil
	}
	n := a.options.Evicted()
	a.evicted.add(now, n-min(n, a.before))
	a.before = n
	count := a.evicted.sum(now)
	if count == 0 {
		return nil
	}
	most, all := facts.Rule{}, uint64(0)
	for _, r := range known.Rules {
		if all += r.Keys; r.Keys > most.Keys {
			most = r
		}
	}
	one := Alarm{
		Kind: AlarmEvicted, Count: count,
		Text: fmt.Sprintf("memory is full: %s over their limit were dropped and have their full limit again", text.Count(int(count), "key")),
		Hint: "raise --memory, or leave out of the key what clients can make up",
	}
	if most.Keys > 0 {
		one.Domain, one.Rule = most.Domain, most.Name
		one.Text += fmt.Sprintf("; most keys are of the rule %s, %d of about %d", most.Name, most.Keys, all)
	}
	return []Alarm{one}
}

// rulesLocked finds rules whose requests fall on one key, and those that no request matches.
func (a *Alarms) rulesLocked(now time.Time, known *facts.Summary) (found []Alarm) {
	if a.options.Facts == nil {
		return nil
	}
	table := a.options.Table()
	if table == nil {
		return nil
	}
	byName := map[[2]string]*facts.Rule{}
	for i := range known.Rules {
		r := &known.Rules[i]
		byName[[2]string{r.Domain, r.Name}] = r
	}
	pools := map[*rule.Rule]bool{} // which requests need not match
	for _, r := range table.Rules() {
		if r.Elastic != nil {
			pools[r.Elastic.Pool] = true
		}
	}
	names := make([]string, len(known.Nodes))
	for i := range known.Nodes {
		names[i] = known.Nodes[i].Name
	}
	slices.Sort(names)
	nodes := strings.Join(names, " ")
	sameNodes := nodes == a.nodes
	a.nodes = nodes
	watched := map[[2]string]*watchedRule{}
	for _, r := range table.Rules() {
		name := [2]string{r.Domain, r.Name}
		w := a.rules[name]
		f := byName[name]
		if f == nil {
			f = &facts.Rule{}
		}
		requests := f.Allowed + f.Denied
		if w == nil {
			w = &watchedRule{seen: now, before: requests}
		}
		if watched[name] = w; !sameNodes {
			w.before = requests // what a node counted before it joined is not of now
		}
		w.requests.add(now, requests-min(requests, w.before))
		w.before = requests
		if n := w.requests.sum(now); n >= fewestOfOne && f.Keys == 1 && varies(r) {
			found = append(found, oneKey(r, n))
		}
		last := f.Last
		if f.Since.After(last) {
			last = f.Since
		}
		if last.IsZero() {
			last = w.seen // it was never matched since then
		}
		if idle := now.Sub(last); idle >= unmatchedFor && !pools[r] {
			found = append(found, unmatchedRule(r, idle))
		}
	}
	a.rules = watched
	return found
}

// varies reports whether a rule has a key for each value of some entry.
func varies(r *rule.Rule) bool {
	return slices.ContainsFunc(r.Path, func(l rule.Level) bool { return l.Value == "" || l.Wildcard && !l.Shared })
}

func oneKey(r *rule.Rule, n uint64) Alarm {
	one := Alarm{
		Kind: AlarmOneKey, Domain: r.Domain, Rule: r.Name, Count: n,
		Text: fmt.Sprintf("all %d requests of the rule %s in the last %v had the same key", n, r.Name, alarmWindow),
		Hint: "see that callers send the value of each client, and not the same for all",
	}
	if slices.ContainsFunc(r.Path, func(l rule.Level) bool { return strings.Contains(l.Key, "address") || l.Key == "ip" }) {
		one.Hint = "the address is probably that of a proxy: name it in --trusted-proxies, so that its X-Forwarded-For is read"
	}
	return one
}

func unmatchedRule(r *rule.Rule, since time.Duration) Alarm {
	return Alarm{
		Kind: AlarmUnmatched, Domain: r.Domain, Rule: r.Name,
		Text: fmt.Sprintf("no request matched the rule %s for %d hours", r.Name, int(since.Hours())),
		Hint: fmt.Sprintf("compare its keys (%s:%d) with those that callers send, or remove it", r.File, r.Line),
	}
}

// forwardedLocked finds forwarded headers of peers that are not trusted.
func (a *Alarms) forwardedLocked(now time.Time) (found []Alarm) {
	for peer, n := range a.peers.all(now) {
		shown := peer
		if peer == otherNames {
			shown = "further peers"
		}
		found = append(found, Alarm{
			Kind: AlarmForwarded, about: peer, Count: n,
			Text: fmt.Sprintf("%s from %s came with what a proxy says of its client, which was not read: it is no trusted proxy", text.Count(int(n), "request"), shown),
			Hint: "name it in --trusted-proxies if it is your proxy",
		})
	}
	return byCount(found)
}

// unknownLocked finds unknown domains.
func (a *Alarms) unknownLocked(now time.Time) (found []Alarm) {
	for domain, n := range a.unknown.all(now) {
		shown := "the domain " + text.Quote(domain)
		if domain == otherNames {
			domain, shown = "", "further domains"
		}
		found = append(found, Alarm{
			Kind: AlarmUnknownDomain, about: shown, Domain: domain, Count: n,
			Text: fmt.Sprintf("%s had %s, which no rule file has", text.Count(int(n), "call"), shown),
			Hint: "correct the name in the calls, or add a rule file with this domain",
		})
	}
	return byCount(found)
}

func byCount(found []Alarm) []Alarm {
	slices.SortFunc(found, func(x, y Alarm) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), strings.Compare(x.about, y.about))
	})
	return found
}

// tally counts events of the last alarmWindow, by minute. The zero tally is empty.
type tally struct {
	minutes [int(alarmWindow / time.Minute)]uint64
	at      int64 // the last minute that was counted, since 1970
}

// add adds events.
func (t *tally) add(now time.Time, n uint64) {
	t.follow(now)
	t.minutes[t.at%int64(len(t.minutes))] += n
}

// sum returns the events of the window.
func (t *tally) sum(now time.Time) (n uint64) {
	t.follow(now)
	for _, m := range t.minutes {
		n += m
	}
	return n
}

// follow empties the minutes that have left the window.
func (t *tally) follow(now time.Time) {
	at, long := now.Unix()/60, int64(len(t.minutes))
	if at <= t.at-long {
		*t = tally{at: at} // the clock was set back, so that what was counted has no place
	}
	at = max(at, t.at) // set back by less it stays in the last minute
	for m := max(t.at+1, at-long+1); m <= at; m++ {
		t.minutes[m%long] = 0
	}
	t.at = at
}

// otherNames is the name under which names are counted for which there is no room.
const otherNames = "\x00others"

// names counts events by name.
type names struct{ tallies map[string]*tally }

// add adds an event. It copies the name.
func (n *names) add(now time.Time, name string) {
	t := n.tallies[name]
	if t == nil {
		if n.tallies == nil {
			n.tallies = map[string]*tally{}
		}
		if len(n.tallies) >= mostNames {
			name = otherNames
			t = n.tallies[name]
		}
		if t == nil {
			t = new(tally)
			n.tallies[strings.Clone(name)] = t
		}
	}
	t.add(now, 1)
}

// all returns the events of the window by name, and forgets names without any.
func (n *names) all(now time.Time) map[string]uint64 {
	all := map[string]uint64{}
	for name, t := range n.tallies {
		if all[name] = t.sum(now); all[name] == 0 {
			delete(n.tallies, name)
			delete(all, name)
		}
	}
	return all
}

// Alarms sets the function that returns the active alarms. It is called at each scrape. Call Alarms at
// most once.
func (m *Metrics) Alarms(list func() []Alarm) {
	m.reg.MustRegister(numbers[float64]{alarmNumbers, func(tell func(*float64, ...string)) {
		active := map[AlarmKind]float64{}
		for _, one := range list() {
			active[one.Kind]++
		}
		for _, kind := range alarmKinds {
			n := active[kind]
			tell(&n, string(kind))
		}
	}})
}

// alarmNumbers are the metrics of alarms.
var alarmNumbers = []number[float64]{
	gauge("alarms", "Active alarms by kind: what is wrong although nobody gets an error, see GET /v1/alarms.", func(n *float64) float64 { return *n }, "kind"),
}
