package pace

import (
	"net/http"
	"strconv"
	"testing"
	"time"
)

// now is the time at which the answers of TestRead arrive.
var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestRead(t *testing.T) {
	const most = 5 * time.Minute
	unix := func(d time.Duration) string { return strconv.FormatInt(now.Add(d).Unix(), 10) }
	none := advice{}
	left := func(n uint32, d time.Duration) advice { return advice{budget: true, left: n, during: d} }
	for _, test := range []struct {
		name   string
		status int
		header []string // name, value, ...
		want   advice
	}{
		{"nothing", 200, nil, none},

		{"seconds", 429, []string{"Retry-After", "7"}, advice{retry: 7 * time.Second}},
		{"seconds of a 503", 503, []string{"Retry-After", " 7 "}, advice{retry: 7 * time.Second}},
		{"seconds of a redirect", 302, []string{"Retry-After", "7"}, none},
		{"absurd seconds", 429, []string{"Retry-After", "86400"}, advice{retry: most}},
		{"endless seconds", 429, []string{"Retry-After", "99999999999999999999999999"}, advice{retry: most}},
		{"no seconds", 429, []string{"Retry-After", "0"}, none},
		{"negative", 429, []string{"Retry-After", "-1"}, none},
		{"fraction", 429, []string{"Retry-After", "1.5"}, none},
		{"words", 429, []string{"Retry-After", "soon"}, none},
		{"empty", 429, []string{"Retry-After", ""}, none},
		{"date", 429, []string{"Retry-After", "Thu, 01 Jan 2026 12:00:09 GMT"}, advice{retry: 9 * time.Second}},
		{"date of RFC 850", 429, []string{"Retry-After", "Thursday, 01-Jan-26 12:00:09 GMT"}, advice{retry: 9 * time.Second}},
		{"date by the server's clock", 429, []string{"Retry-After", "Thu, 01 Jan 2026 11:30:09 GMT", "Date", "Thu, 01 Jan 2026 11:30:00 GMT"}, advice{retry: 9 * time.Second}},
		{"date that has passed", 429, []string{"Retry-After", "Thu, 01 Jan 2026 11:59:00 GMT"}, none},
		{"absurd date", 429, []string{"Retry-After", "Thu, 01 Jan 2099 12:00:00 GMT"}, advice{retry: most}},

		{"one policy", 200, []string{"RateLimit", `"default";r=50;t=30`}, left(50, 30*time.Second)},
		{"a token for a name", 200, []string{"RateLimit", `default; r=50; t=30`}, left(50, 30*time.Second)},
		{"parameters we do not know", 200, []string{"RateLimit", `"a;b, \"c";pk=:dXNlcg==:;t=30;r=50;x`}, left(50, 30*time.Second)},
		{"the least of two", 200, []string{"RateLimit", `"day";r=90;t=200, "second";r=0;t=1`}, left(0, time.Second)},
		{"the longest of two", 200, []string{"RateLimit", `"a";r=0;t=1, "b";r=0;t=9,"c";r=1;t=20`}, left(0, 9*time.Second)},
		{"two fields", 200, []string{"RateLimit", `"a";r=9;t=1`, "RateLimit", `"b";r=3;t=9`}, left(3, 9*time.Second)},
		{"no time", 200, []string{"RateLimit", `"a";r=0`}, none},
		{"time 0", 200, []string{"RateLimit", `"a";r=0;t=0`}, none},
		{"absurd", 200, []string{"RateLimit", `"a";r=99999999999999;t=99999999999999`}, left(1<<32-1, most)},
		{"broken number", 200, []string{"RateLimit", `"a";r=-1;t=5`}, none},
		{"broken string", 200, []string{"RateLimit", `"a;r=1;t=5`}, none},
		{"broken member", 200, []string{"RateLimit", `"a";r=1;t=5,,"b";r=2;t=1`}, none},
		{"broken parameter", 200, []string{"RateLimit", `"a";r=1;;t=5`}, none},
		{"an older draft", 200, []string{"RateLimit", `limit=100, remaining=50, reset=50`}, none},
		{"broken, and legacy beside it", 200, []string{"RateLimit", `"a";r=x;t=5`, "X-RateLimit-Remaining", "3", "X-RateLimit-Reset", "8"}, left(3, 8*time.Second)},
		{"both", 429, []string{"RateLimit", `"a";r=0;t=5`, "Retry-After", "6", "X-RateLimit-Remaining", "3", "X-RateLimit-Reset", "8"}, advice{retry: 6 * time.Second, budget: true, during: 5 * time.Second}},

		{"Unix seconds", 200, []string{"X-RateLimit-Remaining", "3", "X-RateLimit-Reset", unix(20 * time.Second)}, left(3, 20*time.Second)},
		{"Unix milliseconds", 200, []string{"X-RateLimit-Remaining", "3", "X-RateLimit-Reset", unix(20*time.Second) + "500"}, left(3, 20500*time.Millisecond)},
		{"seconds from now", 200, []string{"X-Ratelimit-Remaining", "0", "x-ratelimit-reset", "20"}, left(0, 20*time.Second)},
		{"by the server's clock", 200, []string{"X-RateLimit-Remaining", "3", "X-RateLimit-Reset", unix(-time.Hour), "Date", "Thu, 01 Jan 2026 10:59:40 GMT"}, left(3, 20*time.Second)},
		{"reset that has passed", 200, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", unix(-time.Second)}, none},
		{"absurd reset", 200, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "99999999"}, left(0, most)},
		{"absurd Unix time", 200, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "99999999999999999999999"}, left(0, most)},
		{"no reset", 200, []string{"X-RateLimit-Remaining", "0"}, none},
		{"no remaining", 200, []string{"X-RateLimit-Reset", "20"}, none},
		{"malformed", 200, []string{"X-RateLimit-Remaining", "none", "X-RateLimit-Reset", "20s"}, none},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := http.Header{}
			for i := 0; i < len(test.header); i += 2 {
				h.Add(test.header[i], test.header[i+1])
			}
			if got := read(&http.Response{StatusCode: test.status, Header: h}, now, most); got != test.want {
				t.Errorf("%v is %+v, want %+v", test.header, got, test.want)
			}
		})
	}
}

// For any header, times are between 0 and the bound.
func FuzzRead(f *testing.F) {
	f.Add("Thu, 01 Jan 2026 12:00:09 GMT", `"a";r=1;t=5`, "3", "1767268800")
	f.Add("7", `"a\"";r=0;t=9, b`, "0", "1767268800000")
	f.Fuzz(func(t *testing.T, retry, field, left, reset string) {
		a := read(&http.Response{StatusCode: 429, Header: http.Header{
			"Retry-After": {retry}, "Ratelimit": {field}, "X-Ratelimit-Remaining": {left}, "X-Ratelimit-Reset": {reset},
		}}, now, time.Minute)
		if a.retry < 0 || a.retry > time.Minute || a.during < 0 || a.during > time.Minute || a.budget != (a.during > 0) {
			t.Errorf("%+v", a)
		}
	})
}
