package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
)

const sent = `mail 0 after 0s
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

const queued = `alert: disk 80 %
alert: disk 90 %
dropped: disk 95 %; the next may go in 1h0m0s
webhook 5 dropped: full
webhook 0 after 0s
webhook 1 after 100ms
webhook 2 after 200ms
webhook 3 after 300ms
webhook 4 after 400ms
job 0 after 0s
job 1 after 200ms
job 2 after 400ms
3 released, 0 waiting
`

// The test runs in a bubble, where time advances only while all goroutines wait, so every number is
// exact. A bubble ends only when no goroutine is left.
func TestRun(t *testing.T) {
	for _, test := range []struct {
		part func(context.Context, io.Writer) error
		want string
	}{{send, sent}, {queue, queued}} {
		synctest.Test(t, func(t *testing.T) {
			var out strings.Builder
			if err := test.part(t.Context(), &out); err != nil {
				t.Error(err)
			}
			if out.String() != test.want {
				t.Errorf("printed\n%s\nwant\n%s", out.String(), test.want)
			}
		})
	}
}
