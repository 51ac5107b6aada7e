package records

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/records/apikey"
)

var (
	start  = time.Date(2026, 10, 23, 12, 0, 0, 0, time.UTC)
	friday = start.Add(7 * 24 * time.Hour)
	proxy  = netip.MustParsePrefix("198.51.100.0/28")
)

func network(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func sumOf(s string) apikey.Hash { return sha256.Sum256([]byte(s)) }

// keyOf returns the record of a key.
func keyOf(key, subject string) APIKey {
	return APIKey{Hash: sumOf(key), Last: "x7Qa", Subject: subject}
}

func TestGoodRecords(t *testing.T) {
	for _, r := range []Record{
		Subject{Name: "user=42", Kind: User},
		Subject{Name: "org=a=b", Kind: Organisation, Plan: "pro", Groups: []string{"eu", "beta"}, Notes: "two\nlines", Subscribed: start, PlanUntil: friday},
		Subject{Name: "user=" + strings.Repeat("é", (MaxSubject-5)/2), Kind: Key},
		Override{Target: "user=42", Rule: "api/user", Requests: 1000},
		Override{Target: "user=*@example.com", Rule: "api/user", Unlimited: true, Until: friday, Why: "partner"},
		Override{Target: "user=a*b*", Rule: "api/user", Requests: 1, Per: time.Minute, Burst: 7},
		Ban{Subject: "user=42", Until: start.Add(time.Second)},
		Ban{Subject: "remote_address=192.0.2.7"},
		Ban{Network: network("10.0.0.0/8"), Why: "scans"},
		Ban{Network: network("2001:db8::/32")},
		Ban{Network: network("2600::/19")},
		Ban{Network: network("64:ff9b::c000:200/120")},
		Ban{Network: network("2002:c000:200::/40")},
		keyOf("secret", "user=42"),
	} {
		got, err := r.check(&checks{now: start, trusted: []netip.Prefix{proxy}})
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%v: %v, %v", r, got, err)
		}
	}
}

// Ends are stored in whole seconds, rounded up, and IPv4 networks as such.
func TestStoredForm(t *testing.T) {
	zone := time.FixedZone("", 3600)
	for _, tt := range []struct{ given, want Record }{
		{Ban{Network: network("::ffff:192.0.2.0/120"), Until: start.Add(1500 * time.Millisecond)}, Ban{Network: network("192.0.2.0/24"), Until: start.Add(2 * time.Second)}},
		{
			Subject{Name: "user=1", Kind: User, Plan: "pro", Subscribed: start.In(zone).Add(1), PlanUntil: friday.In(zone)},
			Subject{Name: "user=1", Kind: User, Plan: "pro", Subscribed: start, PlanUntil: friday},
		},
	} {
		got, err := tt.given.check(&checks{now: start})
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%v: %v, %v, want %v", tt.given, got, err, tt.want)
		}
		if tt.given.ID() != tt.want.ID() {
			t.Errorf("%v has the ID %v, stored it has %v", tt.given, tt.given.ID(), tt.want.ID())
		}
	}
}

func TestBadRecords(t *testing.T) {
	user, ten := func(change func(*Subject)) Subject {
		s := Subject{Name: "user=42", Kind: User}
		change(&s)
		return s
	}, func(change func(*Override)) Override {
		o := Override{Target: "user=42", Rule: "api/user", Requests: 10}
		change(&o)
		return o
	}
	key := func(change func(*APIKey)) APIKey {
		k := keyOf("secret", "user=42")
		change(&k)
		return k
	}
	for _, tt := range []struct {
		r              Record
		where, problem string
		hint           string
		forced         bool
	}{
		{r: Subject{Kind: User}, where: "subject", problem: "missing", hint: "KEY=VALUE"},
		{r: user(func(s *Subject) { s.Name = "42" }), where: "subject 42: subject", problem: "42 is no entry", hint: "user=42"},
		{r: user(func(s *Subject) { s.Name = "=42" }), where: "subject", problem: "=42 is no entry", hint: "user=42"},
		{r: user(func(s *Subject) { s.Name = "user=" }), where: "subject", problem: "user= is no entry", hint: "user=42"},
		{r: user(func(s *Subject) { s.Name = "user=" + strings.Repeat("x", 10<<10) }), where: "...", problem: "10245 bytes, at most 1024", hint: "shorter"},
		{r: user(func(s *Subject) { s.Name = "user=a*" }), where: "subject", problem: "has a star", hint: "one subject"},
		{r: user(func(s *Subject) { s.Name = "user=a\nb" }), where: "subject", problem: `"user=a\nb" has control characters`, hint: "encoding"},
		{r: user(func(s *Subject) { s.Name = "user=\xff" }), where: "subject", problem: "not UTF-8", hint: "encoding"},
		{r: user(func(s *Subject) { s.Kind = "robot" }), where: "subject user=42: kind", problem: "robot is no kind", hint: "organisation"},
		{r: user(func(s *Subject) { s.Kind = "" }), where: "kind", problem: "missing", hint: "organisation"},
		{r: user(func(s *Subject) { s.Plan = strings.Repeat("p", 257) }), where: "plan", problem: "257 bytes, at most 256", hint: "shorter"},
		{r: user(func(s *Subject) { s.PlanUntil = friday }), where: "plan_until", problem: "there is no plan", hint: "name a plan"},
		{r: user(func(s *Subject) { s.Plan, s.PlanUntil = "pro", start }), where: "plan_until", problem: "2026-10-23T12:00:00Z is not in the future", hint: "later time"},
		{r: user(func(s *Subject) { s.Subscribed = time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC) }), where: "subscribed", problem: "9999", hint: "correct"},
		{r: user(func(s *Subject) { s.Groups = []string{"a", "b", "a"} }), where: "groups", problem: "a is empty or there twice", hint: "once"},
		{r: user(func(s *Subject) { s.Groups = []string{"a", ""} }), where: "groups", problem: "empty", hint: "once"},
		{r: user(func(s *Subject) { s.Groups = []string{"a\x00"} }), where: "groups", problem: "control characters", hint: "encoding"},
		{r: user(func(s *Subject) { s.Groups = make([]string, 65) }), where: "groups", problem: "65 groups, at most 64", hint: "fewer"},
		{r: user(func(s *Subject) { s.Notes = strings.Repeat("n", 4097) }), where: "notes", problem: "4097 bytes", hint: "shorten"},
		{r: user(func(s *Subject) { s.Notes = "\x1b[31m" }), where: "notes", problem: "control characters", hint: "encoding"},

		{r: ten(func(o *Override) { o.Target = "" }), where: "subject", problem: "missing", hint: "user=42"},
		{r: ten(func(o *Override) { o.Target = "*" }), where: "pattern", problem: "no entry", hint: "user=42"},
		{r: ten(func(o *Override) { o.Target = "user=*" }), where: "pattern", problem: "user=* matches everybody", hint: "longer pattern"},
		{r: ten(func(o *Override) { o.Target = "user=***" }), where: "pattern", problem: "matches everybody", hint: "the rule itself"},
		{r: ten(func(o *Override) { o.Target = "*=a" }), where: "pattern", problem: "before the equals sign", hint: "test-*"},
		{r: ten(func(o *Override) { o.Target = "user=a**" }), where: "pattern", problem: "two stars", hint: "write one"},
		{r: ten(func(o *Override) { o.Target = "user=*" + strings.Repeat("x", MaxSubject) }), where: "pattern", problem: "1030 bytes", hint: "shorter"},
		{r: ten(func(o *Override) { o.Rule = "" }), where: "rule", problem: "missing", hint: "name the rule"},
		{r: ten(func(o *Override) { o.Rule = "a\nb" }), where: "rule", problem: "control", hint: "encoding"},
		{r: ten(func(o *Override) { o.Requests = 0 }), where: "requests", problem: "changes nothing", hint: "make a ban"},
		{r: ten(func(o *Override) { o.Unlimited = true }), where: "unlimited", problem: "also numbers", hint: "leave out"},
		{r: ten(func(o *Override) { o.Per = time.Millisecond }), where: "per", problem: "1ms is not between 10ms and 366d", hint: "1m"},
		{r: ten(func(o *Override) { o.Per = -time.Hour }), where: "per", problem: "is not between", hint: "1m"},
		{r: ten(func(o *Override) { o.Per = time.Second + 1 }), where: "per", problem: "whole microseconds", hint: "round"},
		{r: ten(func(o *Override) { o.Until = start.Add(-time.Second) }), where: "until", problem: "it is 2026-10-23T12:00:00Z now", hint: "delete the record"},
		{r: ten(func(o *Override) { o.Until = start.Add(-time.Millisecond) }), where: "until", problem: "not in the future", hint: "later"},
		{r: ten(func(o *Override) { o.Until = start.AddDate(10000, 0, 0) }), where: "until", problem: "9999", hint: "leave it out"},
		{r: ten(func(o *Override) { o.Why = strings.Repeat("w", 4097) }), where: "why", problem: "4097", hint: "shorten"},

		{r: Ban{}, where: "ban: subject", problem: "missing", hint: "a network"},
		{r: Ban{Subject: "user=1", Network: network("192.0.2.0/24")}, where: "network", problem: "also a subject", hint: "two bans"},
		{r: Ban{Subject: "user=1", Network: network("192.0.2.1/32")}, where: "address", problem: "also a subject", hint: "two bans"},
		{r: Ban{Subject: "192.0.2.7"}, where: "ban 192.0.2.7: subject", problem: "no entry", hint: "user=42"},
		{r: Ban{Subject: "user=*"}, where: "subject", problem: "star", hint: "one subject"},
		{r: Ban{Network: network("192.0.2.7/24")}, where: "network", problem: "inside a network", hint: "write 192.0.2.0/24 for the network, or 192.0.2.7"},
		{r: Ban{Network: netip.PrefixFrom(netip.MustParseAddr("192.0.2.7"), 33)}, where: "network", problem: "not a network", hint: "192.0.2.0/24"},
		{r: Ban{Network: network("192.0.2.0/24"), Until: start}, where: "ban 192.0.2.0/24: until", problem: "not in the future", hint: "later"},

		{r: Ban{Network: network("127.0.0.1/32")}, where: "address", problem: "this machine (127.0.0.0/8)", hint: "force", forced: true},
		{r: Ban{Network: network("::1/128")}, where: "address", problem: "this machine (::1/128)", hint: "force", forced: true},
		{r: Ban{Network: network("::ffff:127.1.0.0/112")}, where: "network", problem: "this machine", hint: "force", forced: true},
		{r: Ban{Network: network("0.0.0.0/0")}, where: "network", problem: "this machine", hint: "force", forced: true},
		{r: Ban{Network: network("::/0")}, where: "network", problem: "this machine", hint: "force", forced: true},
		{r: Ban{Network: network("12.0.0.0/7")}, where: "network", problem: "larger than a /8", hint: "force", forced: true},
		{r: Ban{Network: network("2600::/18")}, where: "network", problem: "larger than a /19", hint: "force", forced: true},
		{r: Ban{Network: network("198.51.0.0/16")}, where: "network", problem: "the trusted proxy 198.51.100.0/28", hint: "client's address", forced: true},
		{r: Ban{Network: network("198.51.100.3/32")}, where: "address", problem: "trusted proxy", hint: "force", forced: true},
		{r: Ban{Network: network("64:ff9b::7f00:0/104")}, where: "network", problem: "stands for 127.0.0.0/8: the ban would deny programs on this machine", hint: "force", forced: true},
		{r: Ban{Network: network("64:ff9b::7f00:1/128")}, where: "address", problem: "stands for 127.0.0.1/32", hint: "force", forced: true},
		{r: Ban{Network: network("64:ff9b::/96")}, where: "network", problem: "stands for 0.0.0.0/0", hint: "force", forced: true},
		{r: Ban{Network: network("64:ff9b::/32")}, where: "network", problem: "stands for 0.0.0.0/0", hint: "force", forced: true},
		{r: Ban{Network: network("64:ff9b:1:2:3:4:0800:0/102")}, where: "network", problem: "larger than a /8", hint: "force", forced: true},
		{r: Ban{Network: network("64:ff9b::c633:6403/128")}, where: "address", problem: "trusted proxy", hint: "client's address", forced: true},
		{r: Ban{Network: network("2002:7f00::/24")}, where: "network", problem: "this machine", hint: "force", forced: true},
		{r: Ban{Subject: "remote_address=127.0.0.1"}, where: "subject", problem: "this machine", hint: "force", forced: true},
		{r: Ban{Subject: "remote_address=198.51.100.3"}, where: "subject", problem: "trusted proxy", hint: "force", forced: true},
		{r: Ban{Subject: "network=8.0.0.0/6"}, where: "subject", problem: "larger than a /8", hint: "force", forced: true},

		{r: key(func(k *APIKey) { k.Hash = apikey.Hash{} }), where: "hash", problem: "missing", hint: "SHA-256"},
		{r: key(func(k *APIKey) { k.Last = "ab" }), where: "last", problem: "not four", hint: "and no more"},
		{r: key(func(k *APIKey) { k.Last = "ab-c" }), where: "last", problem: "not four", hint: "and no more"},
		{r: key(func(k *APIKey) { k.Subject = "" }), where: "subject", problem: "missing", hint: "user=42"},
		{r: key(func(k *APIKey) { k.Replaces = k.Hash }), where: "replaces", problem: "itself", hint: "new key"},
		{r: key(func(k *APIKey) { k.Until = start }), where: "until", problem: "not in the future", hint: "later"},
	} {
		_, err := tt.r.check(&checks{now: start, trusted: []netip.Prefix{proxy}})
		if err == nil || !strings.Contains(err.Where, tt.where) || !strings.HasPrefix(err.Where, string(tt.r.ID().Kind)) || !strings.Contains(err.Problem, tt.problem) || !strings.Contains(err.Hint, tt.hint) {
			t.Errorf("%.80v: %v, hint %q, want %q: %q, hint %q", tt.r, err, hintOf(err), tt.where, tt.problem, tt.hint)
		}
		if _, err := tt.r.check(&checks{now: start, trusted: []netip.Prefix{proxy}, force: true}); (err == nil) != tt.forced {
			t.Errorf("%.80v with force: %v", tt.r, err)
		}
	}
}

func hintOf(err *Error) string {
	if err == nil {
		return ""
	}
	return err.Hint
}

// Errors show at most 60 bytes of a text.
func TestErrorsAreShort(t *testing.T) {
	_, err := Subject{Name: strings.Repeat("x", 10<<10)}.check(&checks{now: start})
	if len(err.Error()) > 200 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

func TestParseNetwork(t *testing.T) {
	for given, want := range map[string]string{"192.0.2.7": "192.0.2.7/32", "192.0.2.0/24": "192.0.2.0/24", "::ffff:192.0.2.7": "192.0.2.7/32", "2001:db8::1": "2001:db8::1/128"} {
		got, err := ParseNetwork(given)
		testkit.Must(t, err)
		if got.String() != want {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
	for _, bad := range []string{"", "x", "192.0.2.0/33", "fe80::1%eth0"} {
		if _, err := ParseNetwork(bad); err == nil || !strings.Contains(err.Error(), "neither a network nor an address") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A record is in force before its end, and not at that second.
func TestInForce(t *testing.T) {
	for _, tt := range []struct {
		until, now time.Time
		want       bool
	}{
		{time.Time{}, friday, true},
		{friday, friday.Add(-1), true},
		{friday, friday, false},
		{friday, friday.Add(1), false},
	} {
		key := keyOf("a", "user=1")
		key.Until = tt.until
		got := fmt.Sprint((&Ban{Until: tt.until}).InForce(tt.now), (&Override{Until: tt.until}).InForce(tt.now), key.InForce(tt.now), (&Subject{Plan: "pro", PlanUntil: tt.until}).PlanAt(tt.now) == "pro")
		if want := strings.TrimSpace(strings.Repeat(fmt.Sprint(tt.want, " "), 4)); got != want {
			t.Errorf("until %v at %v: %s, want %s", tt.until, tt.now, got, want)
		}
	}
}

func TestReplacement(t *testing.T) {
	old, fresh := keyOf("old", "user=42"), keyOf("new", "")
	ending, next := Replacement(old, fresh, friday)
	if ending.Hash != old.Hash || !ending.Until.Equal(friday) || next.Subject != "user=42" || next.Replaces != old.Hash || !next.Until.IsZero() {
		t.Errorf("%v, %v", ending, next)
	}
	old.Until = start
	if ending, _ := Replacement(old, fresh, friday); !ending.Until.Equal(start) {
		t.Errorf("a key that ends at %v ends at %v after its replacement", start, ending.Until)
	}
}
