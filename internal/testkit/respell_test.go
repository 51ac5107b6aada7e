package testkit

import (
	"slices"
	"testing"

	"stint/internal/urlpath"
)

func TestPaths(t *testing.T) {
	for _, o := range []urlpath.Options{
		{},
		{Case: true},
		{TrailingSlash: true},
		{EscapedSlash: true},
		{Backslash: true},
		{Escapes: true},
		{Parameters: true},
		{Endings: true},
		{Escapes: true, EscapedSlash: true},
		urlpath.All,
	} {
		const path = "/users/42/orders"
		paths := RespellPath(path, 500, o)
		if again := RespellPath(path, 500, o); !slices.Equal(paths, again) {
			t.Errorf("%+v: other spellings the second time", o)
		}
		if slices.Sort(paths); len(slices.Compact(paths)) != 500 {
			t.Errorf("%+v: spellings come twice", o)
		}
		for _, p := range paths {
			if got := urlpath.String(p, o); got != path {
				t.Errorf("%+v: %q is %q", o, p, got)
			}
		}
	}
}
