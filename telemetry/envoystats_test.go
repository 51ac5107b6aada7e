package telemetry

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"stint"
	"stint/limiter"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
)

const envoyRules = `domain: d
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 10}
  - key: path
    value: /login
    descriptors:
      - key: ip
        value: 10.0.0.1
        rate_limit: {unit: hour, requests_per_unit: 2}
        shadow_mode: true
  - key: two
    rate_limit: [{unit: hour, requests_per_unit: 3}, {unit: day, requests_per_unit: 5}]
  - key: free
    rate_limit: {unlimited: true}
  - key: 'a:b|c'
    detailed_metric: true
    rate_limit: {unit: hour, requests_per_unit: 1}
`

// desk is a limiter with statistics.
type desk struct {
	*limiter.Limiter
	*EnvoyStats
	t *testing.T
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte(envoyRules)})
	if err != nil {
		t.Fatal(err)
	}
	s := NewEnvoyStats(0.8, EnvoySources{Calls: func() uint64 { return 7 }, Errors: func() (uint64, uint64, uint64) { return 1, 2, 3 }})
	s.Reloaded(table)
	return &desk{limiter.New(memory.New(memory.Options{}), table, limiter.Options{Observer: s}), s, t}
}

// ask decides entries, KEY=VALUE,KEY=VALUE, at a cost.
func (d *desk) ask(domain, entries string, cost uint32) {
	d.t.Helper()
	one := limiter.Descriptor{Cost: cost}
	for e := range strings.SplitSeq(entries, ",") {
		key, value, _ := strings.Cut(e, "=")
		one.Entries = append(one.Entries, rule.Entry{Key: key, Value: value})
	}
	at := stint.Instant(1_800_000_000_000_000) // in microseconds; all within the same hour
	var v limiter.Verdict
	if err := d.Decide(d.t.Context(), &limiter.Request{Domain: domain, Descriptors: []limiter.Descriptor{one}, At: at}, &v); err != nil {
		d.t.Fatal(err)
	}
}

// counts returns all counters above zero.
func (d *desk) counts() map[string]uint64 {
	all := map[string]uint64{}
	d.Counters(func(name string, total uint64) {
		if total > 0 {
			all[strings.TrimPrefix(name, "ratelimit.service.")] = total
		}
	})
	return all
}

// The names and counts are those of envoyproxy/ratelimit.
func TestCounters(t *testing.T) {
	d := newDesk(t)
	for range 12 {
		d.ask("d", "user=x", 1) // 10 pass, 2 of them near the limit; 2 are denied
	}
	d.ask("d", "user=y", 12)                 // 10 would fit, 2 exceed the limit
	d.ask("d", "user=z", 9)                  // one of nine is near the limit
	d.ask("d", "user=z", 0)                  // a peek
	d.ask("d", "path=/login,ip=10.0.0.1", 3) // 2 would fit
	d.ask("d", "path=/login,ip=10.0.0.2", 1) // unmatched
	d.ask("d", "two=x", 1)
	d.ask("d", "free=x", 1)
	d.ask("d", "a:b|c=x", 1)
	d.ask("none", "user=x", 1)
	want := map[string]uint64{
		"rate_limit.d.user.total_hits": 33, "rate_limit.d.user.within_limit": 19, "rate_limit.d.user.over_limit": 4, "rate_limit.d.user.near_limit": 2 + 2 + 1,
		"rate_limit.d.path_/login.ip_10_0_0_1.total_hits": 3, "rate_limit.d.path_/login.ip_10_0_0_1.over_limit": 1,
		"rate_limit.d.path_/login.ip_10_0_0_1.near_limit": 1, "rate_limit.d.path_/login.ip_10_0_0_1.shadow_mode": 1,
		"rate_limit.d.two.total_hits": 1, "rate_limit.d.two.within_limit": 1, "rate_limit.d.two_2.total_hits": 1, "rate_limit.d.two_2.within_limit": 1,
		"rate_limit.d.a_b_c_x.total_hits": 1, "rate_limit.d.a_b_c_x.within_limit": 1, "rate_limit.d.a_b_c_x.near_limit": 1,
		"rate_limit.none.domain_not_found":                1,
		"call.should_rate_limit.service_error":            1,
		"call.should_rate_limit.redis_error":              2,
		"global_shadow_mode":                              3,
		"config_load_success":                             1,
		"ratelimit_server.ShouldRateLimit.total_requests": 7,
	}
	got := d.counts()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			t.Errorf("%s is %d, want %d", name, got[name], want[name])
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("beside them %v", got)
	}
}

// Counts survive a reload; a removed limit is not counted.
func TestReloaded(t *testing.T) {
	d := newDesk(t)
	d.ask("d", "user=x", 1)
	d.ask("d", "two=x", 1)
	d.ReloadFailed()
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte("domain: d\ndescriptors:\n  - key: user\n    rate_limit: {unit: day, requests_per_unit: 10}\n")})
	if err != nil {
		t.Fatal(err)
	}
	d.Swap(table)
	d.ask("d", "user=x", 1) // before Reloaded is called
	d.Reloaded(table)
	d.ask("d", "user=x", 1)
	got := d.counts()
	if got["rate_limit.d.user.total_hits"] != 2 || got["rate_limit.d.two.total_hits"] != 0 || got["config_load_error"] != 1 || got["config_load_success"] != 2 {
		t.Errorf("%v", got)
	}
}

// The number of names that clients can create is limited.
func TestMissingIsBounded(t *testing.T) {
	d := newDesk(t)
	for i := range 3 * maxMissing {
		d.ask(fmt.Sprintf("%d", i), "user=x", 1)
	}
	d.ask(strings.Repeat("x", 1000), "user=x", 1)
	got := d.counts()
	if n := got["rate_limit."+others+".domain_not_found"]; n != 2*maxMissing+1 {
		t.Errorf("%d are counted together", n)
	}
	if len(got) > maxMissing+10 {
		t.Errorf("%d names", len(got))
	}
}

// The names in Prometheus; no series is sent twice.
func TestPrometheus(t *testing.T) {
	d := newDesk(t)
	d.ask("d", "user=x", 1)
	d.ask("d", "path=/login,ip=10.0.0.1", 1)
	reg := prometheus.NewPedanticRegistry()
	d.Register(reg)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += "," + l.GetName() + "=" + l.GetValue()
			}
			got[name] = m.GetCounter().GetValue()
		}
	}
	for name, want := range map[string]float64{
		"ratelimit_service_rate_limit_total_hits,domain=d,key1=user,key2=":                     1,
		"ratelimit_service_rate_limit_within_limit,domain=d,key1=path_/login,key2=ip_10_0_0_1": 1,
		"ratelimit_service_should_rate_limit_error,err_type=redis_error":                       2,
		"ratelimit_service_total_requests,grpc_method=ShouldRateLimit":                         7,
		"ratelimit_service_config_load_success":                                                1,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

// Counting a decision does not allocate.
func TestNoAllocations(t *testing.T) {
	d := newDesk(t)
	v := limiter.Verdict{Domain: "d", Asked: []limiter.Asked{{Rule: d.Table().Rules()[0], Cost: 1, Decision: stint.Decision{Allowed: true, Limit: 10, Remaining: 5}}}}
	if n := testing.AllocsPerRun(100, func() { d.Decided(&v, -1, nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Names contain values of requests if rules ask for them, of all levels or of one. Their number is
// limited; further requests count for the plain name.
func TestDetails(t *testing.T) {
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte(`
domain: d
descriptors:
  - key: all
    descriptors:
      - key: b
        detailed_metric: true
        rate_limit: {unit: hour, requests_per_unit: 9}
  - key: one
    value_to_metric: true
    descriptors:
      - key: b
        rate_limit: {unit: hour, requests_per_unit: 9}
`)})
	if err != nil {
		t.Fatal(err)
	}
	s := NewEnvoyStats(0.8, EnvoySources{})
	s.Reloaded(table)
	d := &desk{limiter.New(memory.New(memory.Options{}), table, limiter.Options{Observer: s}), s, t}
	d.ask("d", "all=x,b=10.0.0.1", 1)
	d.ask("d", "all=x,b=10.0.0.1", 1)
	d.ask("d", "one=x,b=y", 1)
	got := d.counts()
	for name, want := range map[string]uint64{"rate_limit.d.all_x.b_10_0_0_1.total_hits": 2, "rate_limit.d.one_x.b.total_hits": 1} {
		if got[name] != want {
			t.Errorf("%s is %d, want %d, in %v", name, got[name], want, got)
		}
	}
	const more = 100
	for i := range maxDetails + more - 2 {
		d.ask("d", fmt.Sprintf("one=%d,b=y", i), 1)
	}
	d.ask("d", "all=x,b=10.0.0.1", 1) // a known name still has its own counters
	got, details := d.counts(), 0
	for name := range got {
		if strings.HasSuffix(name, ".total_hits") && name != "rate_limit.d.one.b.total_hits" {
			details++
		}
	}
	if details != maxDetails || got["rate_limit.d.one.b.total_hits"] != more || got["rate_limit.d.all_x.b_10_0_0_1.total_hits"] != 3 {
		t.Errorf("%d names, %d hits of the rule", details, got["rate_limit.d.one.b.total_hits"])
	}
}
