package limiter

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/limits"
	"stint/internal/testkit"
	"stint/rule"
	"stint/store/memory"
)

// fake are records in maps.
type fake struct {
	subjects map[string]fakeKnown // by KEY=VALUE
	networks map[netip.Prefix]time.Time
	asked    []string // look-ups
	misfits  []string
}

func newFake() *fake {
	return &fake{subjects: map[string]fakeKnown{}, networks: map[netip.Prefix]time.Time{}}
}

type fakeKnown struct {
	banned    bool
	until     time.Time
	overrides map[string]Override // by rule

	plan       string
	planUntil  time.Time
	subscribed time.Time

	grants map[string][]Grant // by limit
}

func (k fakeKnown) AppendGrants(to []Grant, limit string, now time.Time) []Grant {
	for _, g := range k.grants[limit] {
		if stint.At(now) < g.Until {
			to = append(to, g)
		}
	}
	return to
}

func (f *fake) Mentions(key string) bool { return !strings.HasPrefix(key, "plain") }

func (f *fake) Lookup(key, value string) Known {
	f.asked = append(f.asked, key+"="+value)
	if k, ok := f.subjects[key+"="+value]; ok {
		return k
	}
	return nil
}

func (f *fake) BannedNetwork(network netip.Prefix) (until time.Time, banned bool) {
	for n, end := range f.networks {
		if n.Bits() <= network.Bits() && n.Contains(network.Addr().Unmap()) {
			return end, true
		}
	}
	return until, false
}

func (f *fake) Misfit(r *rule.Rule, err error) {
	f.misfits = append(f.misfits, r.Name+": "+err.Error())
}

func (k fakeKnown) Ban() (time.Time, bool) { return k.until, k.banned }

func (k fakeKnown) Override(name string, now time.Time) (Override, bool) {
	o, ok := k.overrides[name]
	return o, ok && (o.Until.IsZero() || now.Before(o.Until))
}

func (k fakeKnown) Plan(now time.Time) (string, time.Time) {
	if k.planUntil.IsZero() || now.Before(k.planUntil) {
		return k.plan, k.subscribed
	}
	return "", k.subscribed
}

func (f *fake) plan(subject, name string) {
	k := f.subjects[subject]
	k.plan = name
	f.subjects[subject] = k
}

func (f *fake) ban(subject string, until time.Time) {
	k := f.subjects[subject]
	k.banned, k.until = true, until
	f.subjects[subject] = k
}

func (f *fake) override(subject, name string, o Override) {
	k := f.subjects[subject]
	if k.overrides == nil {
		k.overrides = map[string]Override{}
	}
	o.Target = subject
	k.overrides[name] = o
	f.subjects[subject] = k
}

func withRecords(t testing.TB, yaml string, f *fake) *Limiter {
	t.Helper()
	return New(memory.New(memory.Options{Budget: 1, Clock: func() stint.Instant { return now }}), table(t, yaml), Options{Records: f})
}

func requests(n uint32) Override { return Override{Numbers: rule.Numbers{Requests: n}} }

// The first that applies decides: ban, exempt, deny, override, the rule's numbers. Looks and resets ask
// the limits alone.
func TestPrecedence(t *testing.T) {
	f := newFake()
	f.ban("user=root", now.Time().Add(time.Minute))
	f.ban("user=mallory", time.Time{})
	f.ban("team=x", now.Time().Add(time.Hour))
	f.ban("user=past", now.Time())
	f.networks[netip.MustParsePrefix("10.6.0.0/16")] = now.Time().Add(time.Second)
	f.networks[netip.MustParsePrefix("2001:db8::/32")] = time.Time{}
	f.override("user=ann", "api/user", requests(50))
	f.override("user=root", "api/user", requests(50))
	l := withRecords(t, listRules, f)
	for name, tt := range map[string]struct {
		address string
		pairs   []string
		cost    uint32
		op      stint.Op
		reason  Reason
		listed  string
		kind    BanKind
		retry   time.Duration
		limit   int64
	}{
		"the rule's numbers":           {"", []string{"user", "bob"}, 1, stint.Ask, "", "", "", 0, 5},
		"override":                     {"", []string{"user", "ann"}, 1, stint.Ask, "", "", "", 0, 50},
		"override, denied":             {"", []string{"user", "ann"}, 99, stint.Ask, ReasonRateLimited, "", "", stint.Never, 50},
		"deny before override":         {"192.0.2.1", []string{"user", "ann"}, 1, stint.Ask, ReasonDenied, "api/deny#1", "", stint.Never, 0},
		"exempt before deny":           {"10.0.0.1", []string{"user", "bob"}, 1, stint.Ask, "", "office", "", 0, stint.NoLimit},
		"ban before exempt":            {"10.0.0.1", []string{"user", "root"}, 1, stint.Ask, ReasonBanned, "ban", BannedSubject, time.Minute, 0},
		"ban before deny":              {"192.0.2.1", []string{"user", "mallory"}, 1, stint.Ask, ReasonBanned, "ban", BannedSubject, stint.Never, 0},
		"the longer of two bans":       {"10.6.1.2", []string{"user", "root", "team", "x"}, 1, stint.Ask, ReasonBanned, "ban", BannedSubject, time.Hour, 0},
		"a banned address":             {"10.6.1.2", []string{"user", "bob"}, 1, stint.Ask, ReasonBanned, "ban", BannedAddress, time.Second, 0},
		"a banned address, mapped":     {"::ffff:10.6.1.2", []string{"user", "bob"}, 1, stint.Ask, ReasonBanned, "ban", BannedAddress, time.Second, 0},
		"a banned IPv6 address":        {"2001:db8::1", []string{"user", "bob"}, 1, stint.Ask, ReasonBanned, "ban", BannedAddress, stint.Never, 0},
		"a banned address, no entry":   {"10.6.1.2", nil, 1, stint.Ask, ReasonBanned, "ban", BannedAddress, time.Second, 0},
		"another descriptor's entry":   {"", []string{"user", "bob", "team", "x"}, 1, stint.Ask, ReasonBanned, "ban", BannedSubject, time.Hour, 0},
		"over":                         {"", []string{"user", "past"}, 1, stint.Ask, "", "", "", 0, 5},
		"a look":                       {"10.6.1.2", []string{"user", "mallory"}, 0, stint.Ask, "", "", "", 0, 5},
		"a look sees overrides":        {"", []string{"user", "root"}, 0, stint.Ask, "", "", "", 0, 50},
		"a reset":                      {"10.6.1.2", []string{"user", "mallory"}, 1, stint.Reset, "", "", "", 0, 5},
		"units that are forced":        {"10.6.1.2", []string{"user", "mallory"}, 1, stint.Force, "", "", "", 0, 5},
		"remote_address as entry":      {"-", []string{"remote_address", "10.6.1.2"}, 1, stint.Ask, ReasonBanned, "ban", BannedAddress, time.Second, 0},
		"masked_remote_address":        {"-", []string{"masked_remote_address", "2001:db8:1::/64"}, 1, stint.Ask, ReasonBanned, "ban", BannedAddress, stint.Never, 0},
		"a network that is not banned": {"-", []string{"masked_remote_address", "10.0.0.0/8"}, 1, stint.Ask, "", "", "", 0, stint.NoLimit},
		"no address":                   {"-", []string{"remote_address", "nowhere"}, 1, stint.Ask, "", "", "", 0, stint.NoLimit},
		"an address of another key":    {"-", []string{"plain", "10.6.1.2"}, 1, stint.Ask, "", "", "", 0, stint.NoLimit},
	} {
		req := describe(tt.cost, tt.pairs...)
		req.Op, req.At = tt.op, now
		if tt.address != "-" {
			req.Attributes = client(tt.address)
		}
		var v Verdict
		if err := l.Decide(ctx, req, &v); err != nil {
			t.Fatal(err)
		}
		listed := ""
		if v.Listed != nil {
			listed = v.Listed.Name
		}
		if v.Reason() != tt.reason || v.Allowed != (tt.reason == "") || listed != tt.listed || v.Ban != tt.kind || v.RetryAfter != tt.retry || v.Limit != tt.limit {
			t.Errorf("%s: reason %q, list %q, ban %q, %+v", name, v.Reason(), listed, v.Ban, v.Decision)
		}
		for i := range v.Results {
			if r := v.ReasonOf(i); r != tt.reason {
				t.Errorf("%s: result %d has the reason %q", name, i, r)
			}
		}
		if err := l.Undo(ctx, &v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, asked := range f.asked {
		if strings.HasPrefix(asked, "plain") {
			t.Errorf("an entry was looked up whose key no record has: %s", asked)
		}
	}
}

// A ban and an override end with the second that they name.
func TestEnds(t *testing.T) {
	f := newFake()
	end := now.Time().Add(time.Minute)
	f.ban("user=1", end)
	f.override("user=2", "api/user", Override{Numbers: rule.Numbers{Requests: 50}, Until: end})
	l := withRecords(t, twoRules, f)
	var v Verdict
	for _, tt := range []struct {
		at     time.Duration
		reason Reason
		retry  time.Duration
		limit  int64
	}{
		{0, ReasonBanned, time.Minute, 50},
		{time.Minute - time.Microsecond, ReasonBanned, time.Microsecond, 50},
		{time.Minute, "", 0, 5},
		{time.Hour, "", 0, 5},
	} {
		req := describe(1, "user", "1")
		req.At = now.Add(tt.at)
		if err := l.Decide(ctx, req, &v); err != nil || v.Reason() != tt.reason || v.RetryAfter != tt.retry {
			t.Errorf("at %v: %q, %+v, %v", tt.at, v.Reason(), v.Decision, err)
		}
		req = describe(0, "user", "2")
		req.At = now.Add(tt.at)
		if err := l.Decide(ctx, req, &v); err != nil || v.Limit != tt.limit {
			t.Errorf("at %v: %+v, %v", tt.at, v.Decision, err)
		}
		if o, ok := v.Override(0); ok != (tt.limit == 50) || ok && (o.Target != "user=2" || !o.Until.Equal(end)) {
			t.Errorf("at %v: the override is %+v, %v", tt.at, o, ok)
		}
	}
}

// Without a time in the request, the clock decides.
func TestEndsByClock(t *testing.T) {
	f := newFake()
	l := withRecords(t, twoRules, f)
	var v Verdict
	for wait, want := range map[time.Duration]Reason{time.Hour: ReasonBanned, -time.Second: ""} {
		f.ban("user=1", time.Now().Add(wait))
		if err := l.Decide(ctx, describe(1, "user", "1"), &v); err != nil || v.Reason() != want {
			t.Errorf("a ban that ends in %v: %q, %v", wait, v.Reason(), err)
		}
		if want == ReasonBanned && (v.RetryAfter > wait || v.RetryAfter < wait-time.Minute) {
			t.Errorf("retry after %v", v.RetryAfter)
		}
	}
}

// Of several entries with an override of a rule, the last one counts.
func TestOverrideOfLastEntry(t *testing.T) {
	f := newFake()
	f.override("org=a", "api/org/user", requests(10))
	f.override("user=1", "api/org/user", requests(20))
	f.override("org=a", "api/org", requests(30))
	f.override("user=2", "api/org", requests(99)) // not an entry of that descriptor
	l := withRecords(t, `
domain: api
descriptors:
  - key: org
    rate_limit: {unit: hour, requests_per_unit: 1}
    descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 2}}]
`, f)
	for user, want := range map[string]int64{"1": 20, "2": 10} {
		req := &Request{Domain: "api", Descriptors: []Descriptor{
			{Entries: []rule.Entry{{Key: "org", Value: "a"}}, Cost: 1},
			{Entries: []rule.Entry{{Key: "org", Value: "a"}, {Key: "user", Value: user}}, Cost: 1},
		}}
		var v Verdict
		if err := l.Decide(ctx, req, &v); err != nil || v.Results[0].Limit != 30 || v.Results[1].Limit != want {
			t.Errorf("user %s: limits %d and %d, want 30 and %d, %v", user, v.Results[0].Limit, v.Results[1].Limit, want, err)
		}
	}
}

// An override keeps everything of the rule but its numbers, in every form of a rule.
func TestOverrideForms(t *testing.T) {
	for name, tt := range map[string]struct {
		rule    string
		o       rule.Numbers
		allowed int // of 12 requests
		over    int // of these, above the limit
	}{
		"raised":           {"{unit: hour, requests_per_unit: 2}", rule.Numbers{Requests: 5}, 5, 0},
		"lowered":          {"{unit: hour, requests_per_unit: 6}", rule.Numbers{Requests: 3}, 3, 0},
		"burst":            {"{unit: hour, requests_per_unit: 2, algorithm: token_bucket}", rule.Numbers{Burst: 7}, 7, 0},
		"unlimited":        {"{unit: hour, requests_per_unit: 2}", rule.Numbers{Unlimited: true}, 12, 0},
		"soft":             {"{unit: hour, requests_per_unit: 2, soft: 50%}", rule.Numbers{Requests: 4}, 6, 2},
		"elastic by load":  {"{unit: hour, requests_per_unit: 2, elastic: {from: load, below: 50%, upto: 200%}}", rule.Numbers{Requests: 4}, 8, 4},
		"elastic by pool":  {"{unit: hour, requests_per_unit: 2, elastic: {from: pool, upto: 300%}}", rule.Numbers{Requests: 4}, 10, 6},
		"count: responses": {"{unit: hour, requests_per_unit: 2, algorithm: token_bucket, count: responses, statuses: [401]}", rule.Numbers{Requests: 4}, 4, 0},
	} {
		f := newFake()
		f.override("user=1", "mine", Override{Numbers: tt.o})
		store := memory.New(memory.Options{Budget: 1, Clock: func() stint.Instant { return now }})
		yaml := "domain: api\ndescriptors:\n  - key: user\n    rate_limit: " + strings.Replace(tt.rule, "{", "{name: mine, ", 1) +
			"\n  - {key: pool, value: all, rate_limit: {unit: hour, requests_per_unit: 10, name: pool}}\n"
		l := New(store, table(t, yaml), Options{Records: f, Load: func(string) (float64, bool) { return 0.1, true }})
		allowed, over := 0, 0
		var v Verdict
		for range 12 {
			if err := l.Decide(ctx, describe(1, "user", "1"), &v); err != nil {
				t.Fatal(err)
			}
			if v.Allowed {
				allowed++
			}
			if v.Over {
				over++
			}
		}
		if allowed != tt.allowed || over != tt.over || len(f.misfits) > 0 {
			t.Errorf("%s: %d of 12 pass, %d over, want %d and %d; %v", name, allowed, over, tt.allowed, tt.over, f.misfits)
		}
	}
}

// Shadow mode stays shadow mode.
func TestOverrideOfShadow(t *testing.T) {
	f := newFake()
	f.override("user=1", "api/user", requests(1))
	l := withRecords(t, "domain: api\ndescriptors:\n  - {key: user, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 5}}\n", f)
	var v Verdict
	for i := range 3 {
		if err := l.Decide(ctx, describe(1, "user", "1"), &v); err != nil || !v.Allowed || v.Asked[0].Allowed != (i == 0) {
			t.Errorf("request %d: %+v, %+v, %v", i, v.Decision, v.Asked[0].Decision, err)
		}
	}
}

// The numbers of an override are those of the counts of envoyproxy/ratelimit too.
func TestOverrideOfTally(t *testing.T) {
	f := newFake()
	f.override("user=1", "api/user", requests(3))
	rules := table(t, "domain: api\natomic: false\ndescriptors:\n  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1}}\n")
	counting := rules.Rules()[0]
	counting.Tally = limits.CountingDenied(counting.Limit)
	l := New(memory.New(memory.Options{Budget: 1, Clock: func() stint.Instant { return now }}), rules, Options{Records: f})
	var v Verdict
	for i := range 5 {
		if err := l.Decide(ctx, describe(1, "user", "1"), &v); err != nil || v.Allowed != (i < 3) || v.Limit != 3 {
			t.Errorf("request %d: %+v, %v", i+1, v.Decision, err)
		}
	}
}

// An override that does not fit is reported once, and the numbers of the rule apply. A new table
// reports it again.
func TestMisfit(t *testing.T) {
	f := newFake()
	f.override("user=1", "api/user", Override{Numbers: rule.Numbers{Burst: 7}})
	l := withRecords(t, twoRules, f)
	var v Verdict
	for i := range 3 {
		if err := l.Decide(ctx, describe(1, "user", "1"), &v); err != nil || v.Limit != 5 || v.Asked[0].Rule.Base != nil {
			t.Errorf("%+v, %v", v.Decision, err)
		}
		if _, ok := v.Override(0); ok || len(f.misfits) != 1 {
			t.Errorf("request %d: an override %v, misfits %q", i, ok, f.misfits)
		}
	}
	l.Swap(table(t, twoRules))
	if err := l.Decide(ctx, describe(1, "user", "1"), &v); err != nil || len(f.misfits) != 2 {
		t.Errorf("misfits %q, %v", f.misfits, err)
	}
}

// An override names a rule per API by its id. Copies outlast the memory in
// which the catalog returns its rules.
func TestOverrideOfCatalog(t *testing.T) {
	l, _ := cataloged(t, "", "7,*,/a,hour,3", "8,*,/a,day,100,,soft:10%", "9,*,/b,hour,4")
	f := newFake()
	f.override("user=1", "7", requests(5))
	f.override("user=1", "8", requests(50))
	f.override("user=2", "9", Override{Numbers: rule.Numbers{Burst: 3}})
	l.records = f
	var v Verdict
	for range 2 {
		for _, tt := range []struct {
			user, path string
			limits     []int64
		}{{"1", "/a", []int64{5, 50}}, {"2", "/b", []int64{4}}, {"2", "/a", []int64{3, 100}}} {
			decided(t, l, &v, Request{Descriptors: []Descriptor{described(1, "path", tt.path, "user", tt.user)}})
			var got []int64
			for i := range v.Asked {
				got = append(got, v.Asked[i].Limit)
			}
			slices.Sort(got)
			if !slices.Equal(got, tt.limits) || !v.Allowed {
				t.Errorf("user %s, %s: limits %v, want %v", tt.user, tt.path, got, tt.limits)
			}
		}
	}
	if len(f.misfits) != 1 || !strings.HasPrefix(f.misfits[0], "9: burst") {
		t.Errorf("misfits %q", f.misfits)
	}
}

// A request whose client is banned is denied also where no limit applies.
func TestDenyBanned(t *testing.T) {
	f := newFake()
	f.networks[netip.MustParsePrefix("192.0.2.0/24")] = time.Time{}
	l := withRecords(t, twoRules, f)
	var v Verdict
	for address, want := range map[string]bool{"192.0.2.7": true, "198.51.100.7": false, "": false} {
		if got := l.DenyBanned(&Request{Domain: "other", Attributes: client(address)}, &v); got != want || want && v.Reason() != ReasonBanned {
			t.Errorf("%q: %v, %q", address, got, v.Reason())
		}
	}
	if newLimiter(t, twoRules, nil).DenyBanned(&Request{Attributes: client("192.0.2.7")}, &v) {
		t.Error("a limiter without records denies")
	}
}

// Neither a ban nor an override allocates memory on the path.
func TestRecordsAllocateNothing(t *testing.T) {
	if testkit.Race {
		t.Log("the race detector allocates")
		return
	}
	l := withRecords(t, twoRules, newFake())
	l.records = still{fakeKnown{overrides: map[string]Override{"api/user": requests(1_000_000)}}}
	var v Verdict
	for _, user := range []string{"known", "unknown"} {
		req := describe(1, "user", user)
		if n := testing.AllocsPerRun(1000, func() { testkit.Must(t, l.Decide(ctx, req, &v)) }); n != 0 {
			t.Errorf("%s: %v allocations", user, n)
		}
	}
}

// still are records of one subject that remember nothing.
type still struct{ known Known }

func (still) Mentions(key string) bool { return key == "user" }

func (s still) Lookup(_, value string) Known {
	if value == "known" {
		return s.known
	}
	return nil
}

func (still) BannedNetwork(netip.Prefix) (time.Time, bool) { return time.Time{}, false }

func (still) Misfit(*rule.Rule, error) {}

// Reasons of denials by the store's failure policy.
func TestReasonUnavailable(t *testing.T) {
	rules := table(t, "domain: api\ndescriptors:\n  - {key: user, rate_limit: {unit: hour, requests_per_unit: 5, on_store_failure: deny}}\n")
	l := New(degraded{}, rules, Options{})
	var v Verdict
	if err := l.Decide(ctx, describe(1, "user", "1"), &v); err != nil || v.Reason() != ReasonUnavailable || v.ReasonOf(0) != ReasonUnavailable {
		t.Errorf("%q, %q, %v", v.Reason(), v.ReasonOf(0), err)
	}
	l = New(memory.New(memory.Options{Budget: 1}), rules, Options{DenyUnmatched: true})
	if err := l.Decide(ctx, describe(1, "nothing", "1"), &v); err != nil || v.Reason() != ReasonUnmatched || v.ReasonOf(0) != ReasonUnmatched {
		t.Errorf("%q, %q, %v", v.Reason(), v.ReasonOf(0), err)
	}
}

// degraded is a store that denies all, as a failure policy does.
type degraded struct{}

func (degraded) Decide(_ context.Context, call *stint.Call) error {
	call.SizeResults()
	for i := range call.Results {
		call.Results[i] = stint.Decision{Degraded: true, RetryAfter: time.Second}
	}
	return nil
}
