package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	const want = `a browser: 200 200 200
one without cookies: 200 200 200 429 429
the browser once more: 200 429
`
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", &out, want)
	}
}
