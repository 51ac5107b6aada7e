package web

import (
	"net/url"
	"slices"
	"testing"
)

// QueryValue and QueryValues return exactly what net/url returns.
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
		if want, found := all[name]; ok != found || ok && value != want[0] {
			t.Errorf("First(%q, %q) = %q, %v, net/url reads %q", raw, name, value, ok, want)
		}
		if values := QueryValues(raw, name); !slices.Equal(values, all[name]) {
			t.Errorf("All(%q, %q) = %q, net/url reads %q", raw, name, values, all[name])
		}
	})
}
