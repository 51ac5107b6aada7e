package rule_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/rule"
)

func TestParseTests(t *testing.T) {
	tests, err := rule.ParseTests(source(t, "testdata/tests/all.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(tests) != 2 || tests[0].Name != "every word" || tests[0].Domain != "api" || tests[0].Line != 2 || tests[1].Domain != "other" {
		t.Fatalf("%+v", tests)
	}
	if got := tests[0].Start.Time(); !got.Equal(time.Date(2026, 3, 28, 23, 30, 0, 0, time.UTC)) {
		t.Errorf("start %v", got)
	}
	if got := tests[1].Start.Time(); !got.Equal(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("start where silent %v", got)
	}
	s := tests[0].Steps
	if s[0].Times != 1 || s[0].Cost != nil || s[0].Descriptors[0].Cost != 1 || !s[0].Allow || show(s[0].Descriptors) != "user=42" || s[0].Rule != nil || s[0].Remaining != nil || s[0].RetryAfter != nil {
		t.Errorf("step 1: %+v", s[0])
	}
	if s[1].At != 90*time.Second || s[1].Times != 5 || *s[1].Cost != 0 || s[1].Allow || *s[1].Rule != "api/user" || *s[1].Remaining != 0 ||
		*s[1].RetryAfter != 59*time.Second || show(s[1].Descriptors) != "user=42 path=/a" {
		t.Errorf("step 2: %+v", s[1])
	}
	if show(s[2].Descriptors) != "a=; b=c" || *s[2].RetryAfter != stint.Never || *s[2].Rule != "" {
		t.Errorf("step 3: %+v", s[2])
	}
	checkRequest(t, s[3].Request)
	if r := s[4].Request; r.Method() != "GET" || r.Path() != "/" || r.RemoteAddress().IsValid() {
		t.Errorf("step 5: %+v", r)
	}
}

func checkRequest(t *testing.T, r *rule.Request) {
	t.Helper()
	var a rule.Attributes = r
	user, _ := a.Query("user")
	_, other := a.Query("other")
	key, _ := a.Header("X-API-KEY")
	host, _ := a.Header("host")
	_, missing := a.Header("missing")
	if a.Method() != "POST" || a.Path() != "/login" || user != "bob" || other || key != "k" || host != "example.com" || missing ||
		a.RemoteAddress().String() != "2001:db8::1" {
		t.Errorf("request %+v", r)
	}
}

// One file for each fault says exactly what is wrong.
func TestBadTests(t *testing.T) {
	for _, name := range files(t, "testdata/badtests/*.yaml") {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".yaml"), func(t *testing.T) {
			tests, err := rule.ParseTests(source(t, name))
			if err == nil || tests != nil {
				t.Fatalf("accepted: %+v", tests)
			}
			golden(t, strings.TrimSuffix(name, ".yaml")+".want", err.Error()+"\n")
		})
	}
}

func TestParseDuration(t *testing.T) {
	for _, tt := range []struct {
		text string
		want time.Duration
		err  string
	}{
		{"1s", time.Second, ""},
		{"1h30m", 90 * time.Minute, ""},
		{"250ms", 250 * time.Millisecond, ""},
		{"10us", 10 * time.Microsecond, ""},
		{"10µs", 10 * time.Microsecond, ""},
		{"1d", 24 * time.Hour, ""},
		{"1.5d", 36 * time.Hour, ""},
		{"2w", 14 * 24 * time.Hour, ""},
		{"1w1d1h", 193 * time.Hour, ""},
		{"0s", 0, ""},
		{"", 0, "no duration"},
		{"0", 0, "a number without a unit"},
		{"60", 0, "a number without a unit"},
		{"1.5", 0, "a number without a unit"},
		{"-1s", 0, "a negative duration"},
		{"1 s", 0, "no duration"},
		{"1mo", 0, "no duration"},
		{"s", 0, "no duration"},
		{"1D", 0, "no duration"},
		{"99999999w", 0, "longer than 292 years"},
		{"15000w15000w", 0, "longer than 292 years"},
		{"99999999999999999999h", 0, "longer than 292 years"},
	} {
		got, err := rule.ParseDuration(tt.text)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("%q: %v, %v, want %v, %s", tt.text, got, err, tt.want, tt.err)
		}
	}
}
