package replay

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"stint"
)

func TestParseLimit(t *testing.T) {
	for _, test := range []struct {
		text      string
		algorithm stint.Algorithm
		burst     uint32
		requests  uint32
		per       time.Duration
		by        []Field
		kind      string
	}{
		{"100/min by ip", stint.FixedWindow, 0, 100, time.Minute, []Field{ByIP}, "clients"},
		{"10/s", stint.FixedWindow, 0, 10, time.Second, nil, "clients"},
		{"  5 / 15m   by ip + path ", stint.SlidingLog, 0, 5, 15 * time.Minute, []Field{ByIP, ByPath}, "keys"},
		{"1/h by path", stint.TokenBucket, 7, 1, time.Hour, []Field{ByPath}, "paths"},
		{"1/d by user", stint.LeakyBucket, 7, 1, 24 * time.Hour, []Field{ByUser}, "users"},
		{"3/1h30m by agent", stint.SlidingWindow, 0, 3, 90 * time.Minute, []Field{ByAgent}, "user agents"},
		{"3/7d by method+ip", stint.FixedWindow, 9, 3, 7 * 24 * time.Hour, []Field{ByMethod, ByIP}, "keys"},
		{"0/2w", stint.FixedWindow, 0, 0, 14 * 24 * time.Hour, nil, "clients"},
		{"4294967295/day", stint.FixedWindow, 0, 4294967295, 24 * time.Hour, nil, "clients"},
	} {
		l, err := ParseLimit(test.text, test.algorithm, test.burst)
		if err != nil {
			t.Errorf("%q: %v", test.text, err)
			continue
		}
		spec := l.Limit.Spec()
		if spec.Algorithm != test.algorithm || spec.Requests != test.requests || spec.Per != test.per ||
			!slices.Equal(l.By, test.by) || l.nouns()[1] != test.kind || l.Text != strings.Join(strings.Fields(test.text), " ") {
			t.Errorf("%q: read %+v by %v, kind %s", test.text, spec, l.By, l.nouns()[1])
		}
		if knows := test.algorithm == stint.TokenBucket || test.algorithm == stint.LeakyBucket; knows && spec.Burst != test.burst {
			t.Errorf("%q: burst %d", test.text, spec.Burst)
		}
	}
}

func TestParseLimitRefuses(t *testing.T) {
	for _, test := range []struct {
		text      string
		algorithm stint.Algorithm
		problem   string
	}{
		{"", stint.FixedWindow, `limit: "" is incomplete`},
		{"by ip", stint.FixedWindow, `limit: "by ip" is incomplete`},
		{"5/s by", stint.FixedWindow, `limit: "5/s by" is incomplete`},
		{"100", stint.FixedWindow, `limit: "100" has no /`},
		{"100/fortnight", stint.FixedWindow, `limit: "100/fortnight" has no unit or duration "fortnight"`},
		{"100/", stint.FixedWindow, `limit: "100/" has no unit or duration ""`},
		{"-1/s", stint.FixedWindow, `limit: "-1/s" does not begin with a number from 0 to 4294967295 but with "-1"`},
		{"many/s", stint.FixedWindow, `limit: "many/s" does not begin with a number from 0 to 4294967295 but with "many"`},
		{"4294967296/s", stint.FixedWindow, `limit: "4294967296/s" does not begin with a number from 0 to 4294967295 but with "4294967296"`},
		{"5/s by ip,path", stint.FixedWindow, `limit: cannot count by "ip,path"`},
		{"5/s by ip+", stint.FixedWindow, `limit: cannot count by ""`},
		{"5/s by ip+ip", stint.FixedWindow, `limit: counts by ip twice`},
		{"5/1ms", stint.FixedWindow, `per: 1ms is outside 10ms to 366d`},
		{"5/-3s", stint.FixedWindow, `per: -3s is outside 10ms to 366d`},
		{"5/s", stint.Unlimited, `algorithm: unlimited cannot be replayed`},
		{"2000000/s", stint.TokenBucket, `requests: 2000000 per 1s is more than 10^6 per second`},
	} {
		_, err := ParseLimit(test.text, test.algorithm, 0)
		var spec *stint.SpecError
		if !errors.As(err, &spec) || err.Error() != test.problem || spec.Hint == "" {
			t.Errorf("%q: %v, want %s, with a hint", test.text, err, test.problem)
		}
	}
}

func FuzzParseLimit(f *testing.F) {
	for _, text := range []string{"100/min by ip", "5/15m by ip+path", "0/2w", "1/1ns", "/ by ", "9/h by user+agent+method", "1/99999999w"} {
		f.Add(text, uint8(0), uint32(0))
		f.Add(text, uint8(1), uint32(9))
	}
	f.Fuzz(func(t *testing.T, text string, algorithm uint8, burst uint32) {
		l, err := ParseLimit(text, stint.Algorithm(algorithm), burst)
		if err != nil {
			if spec := (*stint.SpecError)(nil); !errors.As(err, &spec) || spec.Hint == "" {
				t.Fatalf("%q: error without a hint: %v", text, err)
			}
			return
		}
		again, err := ParseLimit(l.Text, stint.Algorithm(algorithm), burst)
		if err != nil || !again.Limit.ForStores().Same(l.Limit) || !slices.Equal(again.By, l.By) {
			t.Fatalf("%q reads otherwise than its text %q: %v", text, l.Text, err)
		}
		for _, a := range Algorithms {
			if limit, err := l.variant(a); err == nil && limit.Algorithm() != a {
				t.Fatalf("%q: variant %v is %v", text, a, limit.Algorithm())
			}
		}
	})
}
