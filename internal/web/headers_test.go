package web

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"stint"
)

// at is 2026-01-01T00:00:00.25Z.
const at stint.Instant = 1767225600_250_000

// limit makes a limit for a test table.
func limit(spec stint.Spec) *stint.Limit { return stint.MustLimit(spec) }

var (
	perMinute = limit(stint.Spec{Requests: 10, Per: time.Minute})
	perHour   = limit(stint.Spec{Requests: 1000, Per: time.Hour})
	bucket    = limit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 600, Per: time.Minute, Burst: 100})
)

// policy makes a policy with a decision; remaining -1 means a refusal.
func policy(name string, presets Presets, l *stint.Limit, remaining int64, wait time.Duration) Policy {
	d := stint.Decision{Allowed: true, Limit: l.Capacity(), Remaining: remaining, ResetAfter: wait, At: at}
	if remaining < 0 {
		d.Allowed, d.Remaining, d.RetryAfter = false, 0, wait
	}
	return PolicyOf(name, presets, l, &d)
}

// dump renders fields as lines.
func dump(f *Fields) string {
	var lines []string
	for i := range f.Len() {
		name, value := f.Field(i)
		lines = append(lines, fmt.Sprintf("%s: %s", name, value))
	}
	return strings.Join(lines, "\n")
}

func TestFields(t *testing.T) {
	const usual = IETF | Legacy
	never := policy("api/none", usual, limit(stint.Spec{Per: time.Minute}), -1, 0)
	never.RetryAfter, never.More = stint.Never, 0
	tests := []struct {
		name     string
		policies []Policy
		denied   int
		reset    Reset
		want     string
	}{
		{
			"nothing asked", nil, -1, UnixSeconds, "",
		},
		{
			"usual, allowed",
			[]Policy{policy("api/user", usual, perMinute, 7, 30*time.Second)},
			-1, UnixSeconds, `
RateLimit-Policy: "api/user";q=10;w=60
RateLimit: "api/user";r=7;t=30
X-RateLimit-Limit: 10
X-RateLimit-Remaining: 7
X-RateLimit-Reset: 1767225631`,
		},
		{
			"usual, denied",
			[]Policy{policy("api/user", usual, perMinute, -1, 29750*time.Millisecond)},
			0, UnixSeconds, `
Retry-After: 30
RateLimit-Policy: "api/user";q=10;w=60
RateLimit: "api/user";r=0;t=30
X-RateLimit-Limit: 10
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1767225630
X-RateLimit-Retry-After: 30`,
		},
		{
			"milliseconds",
			[]Policy{policy("x", Legacy, perMinute, -1, time.Microsecond)},
			0, UnixMillis, `
Retry-After: 1
X-RateLimit-Limit: 10
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1767225600251
X-RateLimit-Retry-After: 1`,
		},
		{
			"seconds from now",
			[]Policy{policy("x", Legacy, perMinute, 3, 1500*time.Millisecond)},
			-1, Delta, `
X-RateLimit-Limit: 10
X-RateLimit-Remaining: 3
X-RateLimit-Reset: 2`,
		},
		{
			"draft03, one policy",
			[]Policy{policy("x", Draft03, perMinute, 3, 1500*time.Millisecond)},
			-1, UnixMillis, `
X-RateLimit-Limit: 10, 10;w=60
X-RateLimit-Remaining: 3
X-RateLimit-Reset: 2`,
		},
		{
			"draft03, two policies, the second is nearer",
			[]Policy{policy("x", Draft03, perMinute, 3, time.Second), policy("y", Draft03, perHour, 2, time.Minute)},
			-1, 0, `
X-RateLimit-Limit: 1000, 10;w=60, 1000;w=3600
X-RateLimit-Remaining: 2
X-RateLimit-Reset: 60`,
		},
		{
			"draft03, denied",
			[]Policy{policy("x", Draft03, perMinute, -1, time.Second)},
			0, 0, `
Retry-After: 1
X-RateLimit-Limit: 10, 10;w=60
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1`,
		},
		{
			"draft03 goes before legacy where both stand",
			[]Policy{policy("x", Draft03|Legacy, perMinute, -1, time.Second)},
			0, UnixMillis, `
Retry-After: 1
X-RateLimit-Limit: 10, 10;w=60
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1
X-RateLimit-Retry-After: 1`,
		},
		{
			"several policies, the nearest first, equals in their order",
			[]Policy{
				policy("hour", usual, perHour, 900, time.Hour), policy("a", usual, perMinute, 3, time.Second),
				policy("b", usual, perMinute, 3, time.Minute),
			},
			-1, Delta, `
RateLimit-Policy: "a";q=10;w=60, "hour";q=1000;w=3600, "b";q=10;w=60
RateLimit: "a";r=3;t=1, "hour";r=900;t=3600, "b";r=3;t=60
X-RateLimit-Limit: 10
X-RateLimit-Remaining: 3
X-RateLimit-Reset: 1`,
		},
		{
			"the one that denied first, and no later time beside Retry-After",
			[]Policy{policy("hour", usual, perHour, 900, time.Hour), policy("a", usual, perMinute, -1, time.Second)},
			1, Delta, `
Retry-After: 1
RateLimit-Policy: "a";q=10;w=60, "hour";q=1000;w=3600
RateLimit: "a";r=0;t=1, "hour";r=900
X-RateLimit-Limit: 10
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1
X-RateLimit-Retry-After: 1`,
		},
		{
			"a rule that matched twice stands once",
			[]Policy{
				policy("z", IETF, perMinute, 0, time.Second), policy("a", IETF, perMinute, 9, time.Second),
				policy("a", IETF, perMinute, 4, time.Second), policy("a", IETF, perMinute, 4, time.Minute),
			},
			-1, 0, `
RateLimit-Policy: "z";q=10;w=60, "a";q=10;w=60
RateLimit: "z";r=0;t=1, "a";r=4;t=1`,
		},
		{
			"a hidden rule leaves no trace",
			[]Policy{policy("hidden", 0, perMinute, 0, time.Second), policy("a", usual, perMinute, 9, time.Second)},
			-1, Delta, `
RateLimit-Policy: "a";q=10;w=60
RateLimit: "a";r=9;t=1
X-RateLimit-Limit: 10
X-RateLimit-Remaining: 9
X-RateLimit-Reset: 1`,
		},
		{
			"its refusal is a refusal, and speaks of no other",
			[]Policy{policy("hidden", 0, perMinute, -1, time.Second), policy("a", usual, perMinute, 9, time.Second)},
			0, Delta, `
Retry-After: 1`,
		},
		{
			"never: no time anywhere",
			[]Policy{never},
			0, Delta, `
RateLimit-Policy: "api/none";q=0;w=60
RateLimit: "api/none";r=0
X-RateLimit-Limit: 0
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 0`,
		},
		{
			"the limit is the larger of requests and burst",
			[]Policy{policy("x", usual, bucket, 99, 100*time.Millisecond)},
			-1, Delta, `
RateLimit-Policy: "x";q=600;w=60
RateLimit: "x";r=99;t=1
X-RateLimit-Limit: 600
X-RateLimit-Remaining: 99
X-RateLimit-Reset: 1`,
		},
		{
			"a window below a second, and one of seconds and a half",
			[]Policy{
				policy("a", IETF|Draft03, limit(stint.Spec{Requests: 3, Per: 50 * time.Millisecond}), 2, time.Millisecond),
				policy("b", IETF|Draft03, limit(stint.Spec{Requests: 3, Per: 1500 * time.Millisecond}), 2, time.Millisecond),
			},
			-1, 0, `
RateLimit-Policy: "a";q=3, "b";q=3;w=2
RateLimit: "a";r=2;t=1, "b";r=2;t=1
X-RateLimit-Limit: 3, 3;w=2
X-RateLimit-Remaining: 2
X-RateLimit-Reset: 1`,
		},
		{
			"a month has no fixed length",
			[]Policy{policy("a", IETF|Draft03, limit(stint.Spec{Requests: 3, Calendar: stint.Month}), 2, 60*time.Hour)},
			-1, 0, `
RateLimit-Policy: "a";q=3
RateLimit: "a";r=2;t=216000
X-RateLimit-Limit: 3
X-RateLimit-Remaining: 2
X-RateLimit-Reset: 216000`,
		},
		{
			"unlimited has no numbers",
			[]Policy{policy("a", usual, limit(stint.Spec{Algorithm: stint.Unlimited}), stint.NoLimit, 0)},
			-1, 0, "",
		},
		{
			"names that a header cannot carry as they are",
			[]Policy{policy("a \"b\" \\ 50% ü\r\nX: y", IETF, perMinute, 10, 0)},
			-1, 0, `
RateLimit-Policy: "a \"b\" \\ 50%25 %C3%BC%0D%0AX: y";q=10;w=60
RateLimit: "a \"b\" \\ 50%25 %C3%BC%0D%0AX: y";r=10`,
		},
	}
	var f Fields // one for all cases, so that left over text would be noticed
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f.Answer(test.policies, test.denied, test.reset)
			if got := dump(&f); got != strings.TrimPrefix(test.want, "\n") {
				t.Errorf("fields are\n%s\nwant%s", got, test.want)
			}
			header := map[string][]string{"X-Ratelimit-Limit": {"of somebody else"}}
			f.Put(header)
			for i := range f.Len() {
				name, value := f.Field(i)
				if got := header[name.String()]; len(got) != 1 || got[0] != string(value) {
					t.Errorf("header has %s: %q, want %q", name, got, value)
				}
				if other := header[name.Canonical()]; name.Canonical() != name.String() && other != nil {
					t.Errorf("header has %s: %q too", name.Canonical(), other)
				}
			}
		})
	}
}

// The time t of a policy is exact, for algorithms that provide it: before it there is no more unit,
// and at it there is one.
func TestMore(t *testing.T) {
	specs := []stint.Spec{
		{Algorithm: stint.TokenBucket, Requests: 7, Per: time.Second, Burst: 20},
		{Algorithm: stint.TokenBucket, Requests: 3, Per: time.Second, Burst: 20, Step: true},
		{Algorithm: stint.LeakyBucket, Requests: 7, Per: time.Second, Burst: 20},
		{Algorithm: stint.LeakyBucket, Requests: 7, Per: time.Second, Burst: 20, MaxWait: 400 * time.Millisecond},
		{Algorithm: stint.FixedWindow, Requests: 7, Per: time.Second},
		{Algorithm: stint.FixedWindow, Requests: 7, Per: time.Second, FromFirst: true},
		{Algorithm: stint.SlidingLog, Requests: 7, Per: time.Second},
		{Algorithm: stint.SlidingWindow, Requests: 7, Per: time.Second, Blocks: 4},
	}
	for _, spec := range specs {
		t.Run(fmt.Sprintf("%v %d", spec.Algorithm, spec.MaxWait), func(t *testing.T) {
			l, state, now := stint.MustLimit(spec), stint.State{}, at
			random := rand.New(rand.NewPCG(1, 2))
			for range 3000 {
				now = now.Add(time.Duration(random.IntN(250)) * time.Millisecond)
				d := l.Take(&state, now, uint64(random.IntN(4)))
				spec := l.Spec()
				wait := more(&spec, &d)
				if d.Remaining >= d.Limit {
					if wait != 0 {
						t.Fatalf("waits %v for more than all", wait)
					}
					continue
				}
				after := l.Test(&state, now.Add(wait), 0)
				if d.Allowed && after.Remaining <= d.Remaining {
					t.Fatalf("%+v: after %v still %d", d, wait, after.Remaining)
				}
				if spec.Algorithm == stint.SlidingLog || spec.Algorithm == stint.SlidingWindow || !d.Allowed {
					continue
				}
				if before := l.Test(&state, now.Add(wait-time.Microsecond), 0); before.Remaining > d.Remaining {
					t.Fatalf("%+v: before %v already %d", d, wait, before.Remaining)
				}
			}
		})
	}
}

// Cut ignores a mark in a quoted string.
func TestCut(t *testing.T) {
	for _, row := range []struct {
		s, before, after string
		valid            bool
	}{
		{`a, b, c`, `a`, ` b, c`, true},
		{`"a,b";c, d`, `"a,b";c`, ` d`, true},
		{`"a\",b", d`, `"a\",b"`, ` d`, true},
		{`a\", b`, `a\", b`, ``, false}, // backslashes escape only inside a string
		{`"a\\", b`, `"a\\"`, ` b`, true},
		{`"a, b`, `"a, b`, ``, false},
		{`"a\`, `"a\`, ``, false},
		{`,`, ``, ``, true},
		{``, ``, ``, true},
	} {
		if before, after, valid := Cut(row.s, ','); before != row.before || after != row.after || valid != row.valid {
			t.Errorf("Cut(%q) = %q, %q, %v", row.s, before, after, valid)
		}
	}
}

// Quoted quotes a name like the fields.
func TestQuoted(t *testing.T) {
	for name, want := range map[string]string{"api/user": `"api/user"`, `a"\%ü` + "\n": `"a\"\\%25%C3%BC%0A"`, "": `""`} {
		if got := Quoted(name); got != want {
			t.Errorf("Quoted(%q) = %s, want %s", name, got, want)
		}
	}
}
