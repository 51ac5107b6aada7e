package rule_test

import (
	"strings"
	"testing"

	"stint/rule"
	"stint/rule/rulefile"
)

// Each group is a descriptor of its own. A group that the request does not name ends the list.
func TestGroups(t *testing.T) {
	table := parse(t, `
domain: d
http:
  rate_limits:
    - actions: [{path: {}}]
    - groups:
        - request_headers: {header_name: o, descriptor_key: organisation}
        - request_headers: {header_name: t, descriptor_key: team, skip_if_absent: true}
        - request_headers: {header_name: u, descriptor_key: user}
        - request_headers: {header_name: d, descriptor_key: device}
      cost: 3
    - actions: [{method: {}}]
`)
	d := table.Domain("d")
	var dst []rule.Descriptor
	for _, tt := range []struct{ o, t, u, d, want string }{
		{"1", "2", "3", "4", "organisation=1; organisation=1 team=2; organisation=1 team=2 user=3; organisation=1 team=2 user=3 device=4; "},
		{"1", "2", "3", "", "organisation=1; organisation=1 team=2; organisation=1 team=2 user=3; "},
		{"1", "", "3", "", "organisation=1; organisation=1 user=3; "},
		{"1", "2", "", "4", "organisation=1; organisation=1 team=2; "},
		{"1", "", "", "", "organisation=1; "},
		{"", "2", "3", "4", ""},
		{"1", "2", "3", "4", "organisation=1; organisation=1 team=2; organisation=1 team=2 user=3; organisation=1 team=2 user=3 device=4; "},
	} {
		r := &request{method: "GET", path: "/", headers: map[string]string{"o": tt.o, "t": tt.t, "u": tt.u, "d": tt.d}}
		dst = described(t, d, dst[:0], r)
		if got := show(dst); got != "path=/; "+tt.want+"method=GET" {
			t.Errorf("%+v: %s", tt, got)
		}
		for _, one := range dst {
			if want := map[bool]uint32{true: 3, false: 1}[one.Entries[0].Key == "organisation"]; one.Cost != want {
				t.Errorf("%+v: %v costs %d, want %d", tt, one.Entries, one.Cost, want)
			}
		}
	}
	all := &request{method: "GET", path: "/", headers: map[string]string{"o": "1", "t": "2", "u": "3", "d": "4"}}
	if n := testing.AllocsPerRun(100, func() { dst, _ = d.Describe(dst[:0], all, rule.AnyPhase) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if text := table.String(); !strings.Contains(text, "http groups request_headers as organisation request_headers as team if present") {
		t.Error(text)
	}
	for file, want := range map[string]string{
		"{actions: [{path: {}}], groups: [{path: {}}]}": "actions beside groups",
		"{groups: []}":                 "groups is empty",
		"{levels: [{path: {}}]}":       "write groups: and the actions that tell them",
		"{groups: [{path: {}}, path]}": "an action that is not an object",
	} {
		_, err := rulefile.Parse(rulefile.Source{Name: "f", Data: []byte("domain: d\nhttp: {rate_limits: [" + file + "]}\n")})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", file, err, want)
		}
	}
}
