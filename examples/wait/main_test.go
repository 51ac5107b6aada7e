package main

import (
	"strings"
	"testing"
	"testing/synctest"
)

const want = `mail 0 after 0s
mail 1 after 0s
mail 2 after 0s
mail 3 after 100ms
mail 4 after 200ms
too late, known after 0s: true
the first mailing may go in 0s
the second in 300ms
given back, so a single mail in 100ms
of 50 mails 3 go now; one that cannot wait costs 100ms
`

// In a bubble, where time passes only while all wait, so that every number is exact.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		if err := run(t.Context(), &out); err != nil {
			t.Error(err)
		}
		if out.String() != want {
			t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
		}
	})
}
