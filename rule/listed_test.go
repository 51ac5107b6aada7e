package rule_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stint/rule"
	"stint/rule/rulefile"
)

// TestLists looks requests up in the lists of testdata/good/lists.yaml.
func TestLists(t *testing.T) {
	lists := parse(t, string(source(t, "testdata/good/lists.yaml").Data)).Domain("lists").Lists()
	held := func(r *request, entries []rule.Entry) (names []string) {
		for _, l := range lists {
			if r != nil && l.HoldsRequest(r) || l.HoldsEntries(entries) {
				names = append(names, l.Name)
			}
		}
		return names
	}
	from := func(address string) *request { return &request{address: netip.MustParseAddr(address)} }
	for name, tt := range map[string]struct {
		request *request
		entries []rule.Entry
		want    []string
	}{
		"nothing":         {nil, nil, nil},
		"no address":      {new(request), nil, nil},
		"office":          {from("10.1.2.3"), nil, []string{"office"}},
		"mapped":          {from("::ffff:192.0.2.7"), nil, []string{"office"}},
		"v6":              {from("2001:db8:9::1"), nil, []string{"office"}},
		"other":           {from("192.0.2.8"), nil, nil},
		"barred":          {from("198.51.100.9"), nil, []string{"lists/deny#1"}},
		"header":          {&request{headers: map[string]string{"x-probe": "green"}}, nil, []string{"lists/exempt#2"}},
		"other header":    {&request{headers: map[string]string{"x-probe": "red"}}, nil, nil},
		"empty header":    {&request{headers: map[string]string{"x-probe": ""}}, nil, nil},
		"user":            {nil, []rule.Entry{{Key: "path", Value: "/"}, {Key: "user", Value: "mallory"}}, []string{"lists/deny#2"}},
		"other key":       {nil, []rule.Entry{{Key: "path", Value: "mallory"}}, nil},
		"other user":      {nil, []rule.Entry{{Key: "user", Value: "mallory2"}}, nil},
		"address by key":  {nil, []rule.Entry{{Key: "remote_address", Value: "203.0.113.200"}}, []string{"lists/deny#3"}},
		"network by key":  {nil, []rule.Entry{{Key: "remote_address", Value: "203.0.113.128/26"}}, []string{"lists/deny#3"}},
		"no address here": {nil, []rule.Entry{{Key: "remote_address", Value: "ann"}}, nil},
		"by key alone":    {from("203.0.113.1"), nil, nil},
	} {
		if got := held(tt.request, tt.entries); !slices.Equal(got, tt.want) {
			t.Errorf("%s: in %v, want %v", name, got, tt.want)
		}
	}
}

// Lists may be in files next to the rules, and are part of the table's hash.
func TestListFiles(t *testing.T) {
	dir := t.TempDir()
	blocked := filepath.Join(dir, "blocked.txt")
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, "rules.yaml"), "domain: api\ndeny:\n  - {cidrs: {file: blocked.txt}}\n  - {key: ip, cidrs: {file: blocked.txt}}\n")
	write(blocked, "192.0.2.0/24\n")
	first, err := rulefile.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := first.Files(); !slices.Equal(got, []string{blocked}) {
		t.Errorf("files %q", got)
	}
	l := first.Domain("api").Lists()
	if !l[0].HoldsRequest(&request{address: netip.MustParseAddr("192.0.2.9")}) || l[0].Exempt || l[0].Status != 403 {
		t.Errorf("%+v", l[0])
	}

	write(blocked, "192.0.2.0/24\n198.51.100.0/24\n")
	second, err := rulefile.Load(dir)
	if err != nil || second.Hash() == first.Hash() {
		t.Errorf("hash %s after %s, %v", second.Hash(), first.Hash(), err)
	}

	write(blocked, "192.0.2.0/24\n\n198.51.100.0/42\n")
	_, err = rulefile.Load(dir)
	want := blocked + ":3: \"198.51.100.0/42\" is neither a network nor an address\n  hint: write it such as 192.0.2.0/24, 2001:db8::/32 or 192.0.2.7"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	_, err = rulefile.Load(dir)
	var fault *rule.Error
	if !errors.As(err, &fault) || fault.File != blocked || !strings.Contains(fault.Hint, "rules.yaml:3") {
		t.Errorf("%v, want the missing file and who names it", err)
	}
}

func TestListsAllocateNothing(t *testing.T) {
	lists := parse(t, string(source(t, "testdata/good/lists.yaml").Data)).Domain("lists").Lists()
	r := &request{address: netip.MustParseAddr("192.0.2.9"), headers: map[string]string{"x-probe": "red"}}
	entries := []rule.Entry{{Key: "user", Value: "ann"}, {Key: "remote_address", Value: "2001:db8::/64"}}
	if n := testing.AllocsPerRun(100, func() {
		for _, l := range lists {
			if l.HoldsEntries(entries) || l.HoldsRequest(r) {
				t.Fatal(l.Name)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
