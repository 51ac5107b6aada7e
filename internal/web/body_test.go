package web

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"stint"
)

func TestBody(t *testing.T) {
	m := NewMessage("bf-429", "Request quota exceeded. Wait {wait} and try again.", "Never.")
	d := stint.Decision{At: 1404429033_925_000, RetryAfter: 180 * time.Second, ResetAfter: 180 * time.Second}
	want := `{"error":{"code":"bf-429","message":"Request quota exceeded. Wait 3 minutes and try again.",` +
		`"context":{"renewal":1404429213925}}}`
	if got := string(m.AppendEnvelope(nil, &d, UnixMillis)); got != want {
		t.Errorf("envelope is\n%s\nwant\n%s", got, want)
	}

	denied := []Policy{
		policy("hidden", 0, perMinute, -1, time.Second),
		policy("passed", IETF, perMinute, 1, time.Second),
		policy("b", Legacy, perMinute, -1, time.Second),
		policy("a\"ü", IETF, perMinute, -1, time.Second),
		policy("b", IETF, perMinute, -1, time.Second),
	}
	want = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
		`"title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,` +
		`"detail":"Request quota exceeded. Wait 1 second and try again.","violated-policies":["b","a\"%C3%BC"]}`
	if got := string(m.AppendProblem(nil, 429, denied, 2)); got != want {
		t.Errorf("problem is\n%s\nwant\n%s", got, want)
	}
	want = `"violated-policies":["b","a\"%C3%BC"]}`
	if got := string(m.AppendProblem(nil, 429, denied[:4], 0)); !strings.HasSuffix(got, want) {
		t.Errorf("problem is\n%s\nwant at its end\n%s", got, want)
	}
}

// Whatever texts a setting has, every body is JSON with exactly these texts.
func TestBodiesAreJSON(t *testing.T) {
	const odd = "<a> & \"b\" \\ \n ü \x00 \u2028"
	m := NewMessage(odd, odd+"{wait}"+odd, odd)
	for _, test := range []struct {
		body []byte
		wait string
	}{
		{m.AppendEnvelope(nil, &stint.Decision{RetryAfter: time.Hour}, Delta), odd + "1 hour" + odd},
		{m.AppendEnvelope(nil, &stint.Decision{RetryAfter: stint.Never}, Delta), odd},
		{m.AppendPlainEnvelope(nil, time.Second), odd + "1 second" + odd},
		{m.AppendCapacityProblem(nil, 503, time.Second), odd + "1 second" + odd},
		{m.AppendPlainProblem(nil, 403, odd, stint.Never), odd},
		{m.AppendProblem(nil, 429, []Policy{policy(odd, IETF, perMinute, -1, time.Minute)}, 0), odd + "1 minute" + odd},
	} {
		var got struct {
			Error struct {
				Code, Message string
				Context       map[string]int64
			}
			Detail string
			Status int
		}
		if err := json.Unmarshal(test.body, &got); err != nil {
			t.Errorf("%s: %v", test.body, err)
		}
		if text := got.Error.Message + got.Detail; text != test.wait {
			t.Errorf("%s: says %q, want %q", test.body, text, test.wait)
		}
		if got.Status == 0 && got.Error.Code != odd {
			t.Errorf("%s: code is %q, want %q", test.body, got.Error.Code, odd)
		}
	}
}

func TestWait(t *testing.T) {
	for _, test := range []struct {
		wait time.Duration
		want string
	}{
		{0, "1 second"},
		{time.Microsecond, "1 second"},
		{time.Second, "1 second"},
		{1001 * time.Millisecond, "2 seconds"},
		{59 * time.Second, "59 seconds"},
		{59*time.Second + 1, "1 minute"},
		{60 * time.Second, "1 minute"},
		{61 * time.Second, "2 minutes"},
		{180 * time.Second, "3 minutes"},
		{59 * time.Minute, "59 minutes"},
		{59*time.Minute + time.Second, "1 hour"},
		{time.Hour, "1 hour"},
		{time.Hour + 1, "2 hours"},
		{23 * time.Hour, "23 hours"},
		{23*time.Hour + time.Second, "1 day"},
		{24 * time.Hour, "1 day"},
		{400 * 24 * time.Hour, "400 days"},
	} {
		if got := string(AppendWait(nil, test.wait)); got != test.want {
			t.Errorf("%v is %q, want %q", test.wait, got, test.want)
		}
	}
}

func TestPrefersProblem(t *testing.T) {
	for _, test := range []struct {
		accept string
		want   bool
	}{
		{"", false},
		{"*/*", false},
		{"application/*", false},
		{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", false},
		{"application/json", false},
		{"application/problem+json", true},
		{"Application/Problem+JSON ; charset=utf-8", true},
		{"application/json, application/problem+json", true},
		{"application/problem+json, */*", true},
		{"application/problem+json;q=0.5, application/json", false},
		{"application/problem+json;q=0.5, application/json;q=0.499", true},
		{"application/problem+json;q=0.5, */*", false},
		{"application/json;q=0.5, */*", true},
		{"application/json;q=0, application/*;q=0.1", true},
		{"application/problem+json;q=0, application/json;q=0", false},
		{"application/problem+json;q=0", false},
		{"application/problem+json;q=2", false},
		{"application/problem+json;q=", false},
		{"application/problem+json;q=0.0001", false},
		{"application/problem+json;q=1.001", false},
		{"application/problem+json;q=0.x", false},
		{`text/plain;a="x, application/problem+json", application/json`, false},
		{`text/plain;a="\"", application/problem+json`, true},
		{"text/html", false},
		{",,;;==,", false},
	} {
		if got := PrefersProblem([]string{test.accept}); got != test.want {
			t.Errorf("Accept: %s: problem details %v, want %v", test.accept, got, test.want)
		}
	}
	if !PrefersProblem([]string{"application/json;q=0.1", "application/problem+json;q=0.2"}) {
		t.Error("the second line of two is not read")
	}
}

func FuzzPrefersProblem(f *testing.F) {
	f.Add("application/problem+json;q=0.5, */*", "text/html")
	f.Add(`a;b="\`, ";q=.5")
	f.Fuzz(func(t *testing.T, one, two string) {
		if PrefersProblem([]string{one}) && !PrefersProblem([]string{one, "text/html"}) {
			t.Fatalf("%q: a type of no interest changes the answer", one)
		}
		PrefersProblem([]string{one, two})
	})
}

// Any name is written as one string of printable ASCII without a line end.
func FuzzName(f *testing.F) {
	f.Add("a\"\\%\r\nü")
	f.Fuzz(func(t *testing.T, name string) {
		quoted := appendName(nil, name)
		var back string
		if err := json.Unmarshal(quoted, &back); err != nil {
			t.Fatalf("%q becomes %s: %v", name, quoted, err)
		}
		for _, c := range quoted {
			if c < ' ' || c > '~' {
				t.Fatalf("%q becomes %q", name, quoted)
			}
		}
	})
}

func BenchmarkAnswer(b *testing.B) {
	policies := []Policy{
		policy("api/user", IETF|Legacy, perMinute, 3, time.Second),
		policy("api/remote_address", IETF|Legacy, perHour, 700, time.Minute),
	}
	var f Fields
	header := map[string][]string{}
	b.ReportAllocs()
	for b.Loop() {
		f.Answer(policies, -1, UnixSeconds)
		f.Put(header)
	}
}

// Browsers prefer HTML; programs that accept anything do not.
func TestPrefersHTML(t *testing.T) {
	for accept, want := range map[string]bool{
		"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8": true, "text/html": true, "Text/HTML;q=0.5": true,
		"": false, "*/*": false, "text/plain": false, "text/plain,text/html;q=0.5": false, "text/html;q=0": false, "application/json": false,
	} {
		if got := PrefersHTML([]string{accept}); got != want {
			t.Errorf("%q: %v", accept, got)
		}
	}
}
