package limiter

import (
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/rule"
)

// one makes a descriptor with one entry.
func one(key, value string, cost uint32) Descriptor {
	return Descriptor{Entries: []rule.Entry{{Key: key, Value: value}}, Cost: cost}
}

// back makes a descriptor that refunds.
func back(key, value string, cost uint32) Descriptor {
	d := one(key, value, cost)
	d.Refund = true
	return d
}

// own makes a descriptor with its own limit of requests per hour.
func own(key, value string, cost, requests uint32) Descriptor {
	d := one(key, value, cost)
	d.Limit = stint.MustLimit(stint.Spec{Requests: requests, Per: time.Hour})
	return d
}

func of(list ...Descriptor) *Request { return &Request{Domain: "api", Descriptors: list} }

// TestRefundOfADescriptor: a refund gives back used units, never more, even if the rest of the call
// is denied.
func TestRefundOfADescriptor(t *testing.T) {
	run(t, newLimiter(t, twoRules, nil), []step{
		{of(back("user", "1", 3)), true, "api/user", 5, "a"},
		{of(one("user", "1", 4)), true, "api/user", 1, "a"},
		{of(back("user", "1", 3)), true, "api/user", 4, "a"},
		{of(back("user", "1", 9)), true, "api/user", 5, "a"},
		{of(one("user", "1", 5)), true, "api/user", 0, "a"},
		{of(back("user", "1", 1), one("team", "1", 4)), false, "api/team", 3, "ad"},
		{of(one("user", "1", 0)), true, "api/user", 1, "a"},
	})
}

// TestOwnLimits: the limit of a descriptor replaces the rules. Its bucket is separate, and a later
// request with another number of requests per hour finds it as it was.
func TestOwnLimits(t *testing.T) {
	elsewhere := of(own("user", "1", 1, 1))
	elsewhere.Domain = "other"
	run(t, newLimiter(t, twoRules, nil), []step{
		{of(own("user", "1", 2, 2)), true, "", 0, "u"},
		{of(own("user", "1", 1, 2)), false, "", 0, "u"},
		{of(own("user", "1", 1, 4)), true, "", 1, "u"},
		{of(own("user", "2", 1, 4)), true, "", 3, "u"},
		{of(own("use", "r1", 1, 4)), true, "", 3, "u"},
		{of(own("nobody", "1", 1, 1)), true, "", 0, "u"},
		{of(one("user", "1", 1)), true, "api/user", 4, "a"},
		{of(own("user", "1", 1, 4), one("user", "1", 1)), true, "", 0, "ua"},
		{of(own("user", "1", 1, 4), one("user", "1", 1)), false, "", 0, "ua"},
		{of(one("user", "1", 0)), true, "api/user", 3, "a"},
		{elsewhere, true, "", stint.NoLimit, "u"},
		{elsewhere, true, "", stint.NoLimit, "u"},
		{of(own("x", "", 1, 0)), false, "", 0, "u"},
	})
}

// TestOwnLimitsDoNotMeet: descriptors with their own limits use different buckets if anything but
// the number of requests differs.
func TestOwnLimitsDoNotMeet(t *testing.T) {
	keys := map[string]string{}
	for name, d := range map[string]Descriptor{
		"a":         own("a", "b_c", 1, 1),
		"split":     own("a_b", "c", 1, 1),
		"two":       {Limit: own("", "", 0, 1).Limit, Entries: []rule.Entry{{Key: "a", Value: "b"}, {Key: "c"}}},
		"other two": {Limit: own("", "", 0, 1).Limit, Entries: []rule.Entry{{Key: "a"}, {Key: "b", Value: "c"}}},
		"none":      {Limit: own("", "", 0, 1).Limit},
		"a minute":  {Limit: stint.MustLimit(stint.Spec{Requests: 1, Per: time.Minute}), Entries: own("a", "b_c", 1, 1).Entries},
	} {
		for _, domain := range []string{"api", "ap"} {
			key := string(AppendOwnKey(nil, domain, &d))
			if other, taken := keys[key]; taken {
				t.Errorf("%s of %s and %s share the key %q", name, domain, other, key)
			}
			keys[key] = name + " of " + domain
		}
	}
	same, more := own("a", "b", 1, 1), own("a", "b", 9, 2)
	if string(AppendOwnKey(nil, "api", &same)) != string(AppendOwnKey(nil, "api", &more)) {
		t.Error("the number of requests is part of the key")
	}
}

// TestEach: every limit is charged independently, and the verdict still combines their decisions.
func TestEach(t *testing.T) {
	req := of(one("user", "1", 1), one("team", "1", 2))
	req.Each = true
	run(t, newLimiter(t, twoRules, nil), []step{
		{req, true, "api/team", 1, "aa"},
		{req, false, "api/team", 1, "ad"},
		{of(one("user", "1", 0)), true, "api/user", 3, "a"},
	})
}

// TestQuotaOfARequest: only all limits together deny, and unmatched descriptors do not count.
func TestQuotaOfARequest(t *testing.T) {
	req := of(one("user", "1", 1), one("team", "1", 2), one("nobody", "1", 1))
	req.Quota = true
	run(t, newLimiter(t, twoRules, nil), []step{
		{req, true, "api/team", 1, "aau"},
		{req, true, "api/user", 3, "adu"},
		{req, true, "api/user", 2, "adu"},
		{req, true, "api/user", 1, "adu"},
		{req, true, "api/user", 0, "adu"},
		{req, false, "api/user", 0, "ddu"},
	})
	alone := of(one("nobody", "1", 1))
	alone.Quota = true
	run(t, newLimiter(t, twoRules, nil), []step{{alone, true, "", stint.NoLimit, "u"}})
}

// TestQuotaAndShadow: an unlimited quota does not count, and one in shadow mode never denies.
func TestQuotaAndShadow(t *testing.T) {
	l := newLimiter(t, `
domain: api
descriptors:
  - key: a
    quota_mode: true
    rate_limit: {unit: hour, requests_per_unit: 0}
  - key: free
    quota_mode: true
    rate_limit: {unlimited: true}
  - key: shadow
    quota_mode: true
    shadow_mode: true
    rate_limit: {unit: hour, requests_per_unit: 0}
`, nil)
	run(t, l, []step{
		{describe(1, "a", "1"), false, "api/a", 0, "d"},
		{describe(1, "a", "1", "free", "1"), false, "api/a", 0, "da"},
		{describe(1, "a", "1", "shadow", "1"), true, "", stint.NoLimit, "da"},
	})
}

// TestDebt: with Request.Debt, a peek at an overdrawn limit with nothing remaining is denied, and
// so is the whole call.
func TestDebt(t *testing.T) {
	for _, algorithm := range []string{"fixed_window", "token_bucket", "sliding_log", "sliding_window"} {
		t.Run(algorithm, func(t *testing.T) {
			l := newLimiter(t, `
domain: api
descriptors:
  - key: tokens
    rate_limit: {requests: 3, per: 1h, algorithm: `+algorithm+`, overdraw: true}
  - key: plain
    rate_limit: {requests: 3, per: 1h}
  - key: quiet
    shadow_mode: true
    rate_limit: {requests: 3, per: 1h, overdraw: true}
  - key: cost
    rate_limit: {requests: 9, per: 1h, algorithm: `+algorithm+`, overdraw: true}
`, nil)
			owes := of(one("tokens", "1", 0), one("cost", "1", 4), one("plain", "1", 1))
			owes.Debt = true
			look := of(one("tokens", "1", 0), one("plain", "1", 1))
			look.Debt = true
			quiet := of(one("quiet", "1", 0), one("plain", "2", 1))
			quiet.Debt = true
			run(t, l, []step{
				{of(one("tokens", "1", 2)), true, "api/tokens", 1, "a"},
				{look, true, "api/tokens", 1, "aa"},
				{of(one("tokens", "1", 2)), false, "api/tokens", 0, "d"},
				{of(one("tokens", "1", 0)), true, "api/tokens", 0, "a"},
				{look, false, "api/tokens", 0, "da"},
				{of(one("plain", "1", 0)), true, "api/plain", 2, "a"},
				{of(one("quiet", "1", 5)), true, "", stint.NoLimit, "a"},
				{quiet, true, "api/plain", 2, "aa"},
				{owes, false, "api/tokens", 0, "daa"},
				{of(one("plain", "1", 0)), true, "api/plain", 2, "a"},
				{of(one("cost", "1", 0)), true, "api/cost", 5, "a"}, // the cost stays charged although another limit denies
			})
			var v Verdict
			if err := l.Decide(ctx, look, &v); err != nil || v.RetryAfter <= 0 || v.Results[1].Remaining != 2 {
				t.Errorf("%+v, %v", v.Decision, err)
			}
			if err := l.Decide(ctx, owes, &v); err != nil || v.Results[1].Remaining != 1 || v.Results[2].Remaining != 2 {
				t.Errorf("%+v, %v", v.Results, err)
			}
		})
	}
}

// TestReplacedByGivenNames: several limits may have one name, and all of them are replaced.
func TestReplacedByGivenNames(t *testing.T) {
	run(t, newLimiter(t, `
domain: api
descriptors:
  - key: a
    rate_limit: {unit: hour, requests_per_unit: 1, name: both}
  - key: b
    rate_limit: {unit: hour, requests_per_unit: 1, name: both}
  - key: c
    rate_limit: {unit: hour, requests_per_unit: 9, replaces: [{name: both}]}
`, nil), []step{
		{describe(1, "a", "1", "b", "1", "c", "1"), true, "api/c", 8, "uua"},
		{describe(2, "a", "1", "b", "1", "c", "1"), true, "api/c", 6, "uua"},
	})
}

// TestNoAllocations: the fields of descriptors cause no allocations.
func TestNoAllocations(t *testing.T) {
	l := newLimiter(t, twoRules, nil)
	req := of(back("user", "1", 1), one("team", "1", 0), own("x", "y", 1, 1e9))
	req.Debt, req.Quota = true, true
	var v Verdict
	if n := testing.AllocsPerRun(100, func() { _ = l.Decide(ctx, req, &v) }); n != 0 && !testkit.Race {
		t.Errorf("%v allocations", n)
	}
}
