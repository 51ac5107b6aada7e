package rule_test

import (
	"net/netip"
	"testing"

	"stint/rule"
	"stint/rule/rulefile"
)

// user is a request of an authenticated client.
type user struct {
	request
	name string
}

func (u *user) Identity() string { return u.name }

// TestPhases checks that identity is the name that authentication proved, that an element with it is
// in the phase Late, also inside first_of, and that all others are in Early.
func TestPhases(t *testing.T) {
	table, err := rulefile.Parse(rulefile.Source{Name: "f", Data: []byte(`
domain: a
http:
  rate_limits:
    - actions: [{remote_address: {}}]
    - actions: [{identity: {}}, {path: {}}]
    - actions: [{first_of: [{identity: {descriptor_key: who}}, {remote_address: {}}]}]
    - actions: [{path: {}}, {identity: {skip_if_absent: true}}]
`)}, rulefile.Source{Name: "g", Data: []byte("domain: b\nhttp: {rate_limits: [{actions: [{path: {}}]}]}\n")})
	if err != nil {
		t.Fatal(err)
	}
	address := netip.MustParseAddr("192.0.2.1")
	anonymous := request{path: "/x", address: address}
	for _, tt := range []struct {
		domain string
		phase  rule.Phase
		a      rule.Attributes
		want   string
	}{
		{"a", rule.Early, &user{anonymous, "ann"}, "remote_address=192.0.2.1"},
		{"a", rule.Late, &user{anonymous, "ann"}, "user=ann path=/x; who=ann; path=/x user=ann"},
		{"a", rule.AnyPhase, &user{anonymous, "ann"}, "remote_address=192.0.2.1; user=ann path=/x; who=ann; path=/x user=ann"},
		{"a", rule.Late, &user{anonymous, ""}, "remote_address=192.0.2.1; path=/x"},
		{"a", rule.Late, &anonymous, "remote_address=192.0.2.1; path=/x"},
		{"b", rule.Early, &anonymous, "path=/x"},
		{"b", rule.Late, &anonymous, ""},
	} {
		d := table.Domain(tt.domain)
		got, err := d.Describe(nil, tt.a, tt.phase)
		if err != nil || show(got) != tt.want {
			t.Errorf("domain %s, phase %d: %q, %v, want %q", tt.domain, tt.phase, show(got), err, tt.want)
		}
		if reads := d.ReadsIdentity(); reads != (tt.domain == "a") {
			t.Errorf("domain %s reads the identity: %t", tt.domain, reads)
		}
	}
}
