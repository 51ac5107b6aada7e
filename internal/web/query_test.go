package web

import (
	"net/url"
	"slices"
	"strings"
	"testing"
)

// TestQueryValue checks that no spelling hides the value that a server may read.
func TestQueryValue(t *testing.T) {
	for _, tt := range []struct {
		raw, want string
		all       []string
	}{
		{"key=a", "a", []string{"a"}},
		{"key=&key=a", "a", []string{"", "a"}},
		{"key&key=&%6bey=a", "a", []string{"", "", "a"}},
		{strings.Repeat("key=&", 2*maxValues) + "key=a", "a", slices.Repeat([]string{""}, maxValues)},
		{"key=a&key=b", "a", []string{"a", "b"}},
		{"key=", "", []string{""}},
		{"Key=a&keys=b&ke=c&key%zz=d", "", nil},

		// Some servers take a semicolon as a separator.
		{"x=1;key=a", "a", []string{"a"}},
		{"key=a;x=1", "a", []string{"a"}},
		{"key=;key=a", "a", []string{"", "a"}},
		{"x=1;key=a&key=b", "b", []string{"a", "b"}},
		{"key=&x=1;key=a", "a", []string{"", "a"}},

		// Many servers leave an invalid escape as it is.
		{"key=a%", "a%", []string{"a%"}},
		{"key=%zz+%41%4", "%zz A%4", []string{"%zz A%4"}},
		{"key=%zz&key=b", "b", []string{"%zz", "b"}},
		{"x=%zz;k%65y=a+b", "a b", []string{"a b"}},
	} {
		if value, ok := QueryValue(tt.raw, "key"); value != tt.want || ok != (tt.all != nil) {
			t.Errorf("QueryValue(%.40q) = %q, %v, want %q", tt.raw, value, ok, tt.want)
		}
		if all := QueryValues(tt.raw, "key"); !slices.Equal(all, tt.all) {
			t.Errorf("QueryValues(%.40q) = %q, want %q", tt.raw, all, tt.all)
		}
	}
}

// FuzzFirst checks that values that net/url reads are read as it does: QueryValue returns the first one that
// is not empty, and QueryValues has all of them in order.
func FuzzFirst(f *testing.F) {
	for _, seed := range [][2]string{
		{"a=1&b=2", "b"},
		{"a=1&b=2&a=3&%61=4&a", "a"},
		{"x=1&&q%20s=a+b&q+s=2", "q s"},
		{"q=%zz&q=a%20b", "q"},
		{"a;b=1", "a"},
		{"a", "a"},
		{"=1&a=2", ""},
		{"&&&", ""},
		{"=", ""},
		{"%", "%"},
		{"", "a"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, raw, name string) {
		all, _ := url.ParseQuery(raw)
		value, ok := QueryValue(raw, name)
		if i := slices.IndexFunc(all[name], func(v string) bool { return v != "" }); i >= 0 && value != all[name][i] || !ok && all[name] != nil {
			t.Errorf("QueryValue(%q, %q) = %q, %v, net/url reads %q", raw, name, value, ok, all[name])
		}
		values := QueryValues(raw, name)
		if (value != "") != slices.ContainsFunc(values, func(v string) bool { return v != "" }) && len(values) < maxValues {
			t.Errorf("QueryValue(%q, %q) = %q, QueryValues returns %q", raw, name, value, values)
		}
		next := 0
		for _, v := range values {
			if next < len(all[name]) && v == all[name][next] {
				next++
			}
		}
		if next < len(all[name]) && len(values) < maxValues {
			t.Errorf("QueryValues(%q, %q) = %q, net/url reads %q", raw, name, values, all[name])
		}
	})
}
