package main

import (
	"strings"
	"testing"
	"testing/synctest"
)

const want = `a program, too fast and then too often:
429 application/json
{"error": {"code": "too_fast", "limit": 2, "rule": "two a second", "retry_after": 1}}
402 application/json
Link: </plans>; rel="payment"
{"error": {"code": "plan_used_up", "limit": 4, "renewal": "2000-01-02T00:00:00Z"}}
a person:
429 text/html; charset=utf-8
<!doctype html>
<title>One moment</title>
<p>Please come back in 58 seconds.</p>
`

// The test runs in a bubble, where time stands still unless all goroutines wait, and begins on
// 2000-01-01.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		if err := run(&out, "../rules/denial.yaml"); err != nil {
			t.Error(err)
		}
		if out.String() != want {
			t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
		}
	})
}
