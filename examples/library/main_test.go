package main

import (
	"strings"
	"testing"
	"testing/synctest"
)

const want = `0: allowed, 2 left
1: allowed, 1 left
2: allowed, 0 left
3: denied, wait 200ms
4: allowed, 0 left
`

// The test runs in a bubble, where time advances only while all goroutines wait, so every number is
// exact.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		run(&out)
		if out.String() != want {
			t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
		}
	})
}
