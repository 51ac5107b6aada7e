package reservation_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/internal/transaction"
	"stint/limiter"
	"stint/limiter/reservation"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
)

var secret = []byte("a secret of the tests, which is long")

// logins are rules with a limit of wrong passwords, one of broken answers in shadow mode, and one of requests.
const logins = `
domain: api
descriptors:
  - key: user
    rate_limit: {per: 15m, requests: 5, algorithm: ALGORITHM, count: responses, statuses: [401], name: wrong}
  - key: broken
    shadow_mode: true
    rate_limit: {per: 15m, requests: 5, algorithm: ALGORITHM, count: responses, statuses: [5xx], name: broken}
  - key: team
    rate_limit: {unit: hour, requests_per_unit: 100}
`

// node is a node with a clock of its own, and a store that can be away.
type node struct {
	*reservation.Reservations
	limiter *limiter.Limiter
	store   *store
	ahead   time.Duration
}

type store struct {
	stint.Store
	away atomic.Bool
	lose atomic.Bool // decides, and loses the answer
}

var errAway = errors.New("away")

func (s *store) Decide(ctx context.Context, call *stint.Call) error {
	if s.away.Load() {
		return errAway
	}
	err := s.Store.Decide(ctx, call)
	if s.lose.Load() {
		return fmt.Errorf("%w: %w", stint.ErrUnknown, err)
	}
	return err
}

func newNode(t *testing.T, counts stint.Store, rules string) *node {
	t.Helper()
	n := &node{store: &store{Store: counts}}
	n.limiter = limiter.New(n.store, table(t, rules), limiter.Options{})
	n.Reservations = reservation.New(n.limiter, rule.NewKeySecret(secret), func() time.Time { return time.Now().Add(n.ahead) })
	return n
}

func table(t *testing.T, rules string) *rule.Table {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte(rules)})
	testkit.Must(t, err)
	return table
}

// request is a login of a user, twice in one request if twice is set.
func request(cost uint32, twice bool) *limiter.Request {
	r := &limiter.Request{Domain: "api", Answers: cost > 0}
	for _, key := range []string{"user", "broken", "team"} {
		r.Descriptors = append(r.Descriptors, limiter.Descriptor{Entries: []rule.Entry{{Key: key, Value: "a"}}, Cost: cost})
	}
	if twice {
		r.Descriptors = append(r.Descriptors, r.Descriptors[0])
	}
	return r
}

// reserve decides a request and returns its reservation.
func (n *node) reserve(t *testing.T, twice bool) string {
	t.Helper()
	var v limiter.Verdict
	testkit.Must(t, n.limiter.Decide(t.Context(), request(1, twice), &v))
	return n.Issue(&v)
}

// left returns what remains of the limits.
func (n *node) left(t *testing.T) (left [3]int64) {
	t.Helper()
	var v limiter.Verdict
	testkit.Must(t, n.limiter.Decide(t.Context(), request(0, false), &v))
	for i := range left {
		left[i] = v.Asked[i].Remaining
	}
	return left
}

// settle settles a reservation, and checks the outcome.
func (n *node) settle(t *testing.T, text string, status int, want string) {
	t.Helper()
	o, err := n.Settle(t.Context(), text, status)
	if got := fmt.Sprint(o.Charged, o.GivenBack); err != nil || got != want {
		t.Errorf("status %d: %s, %v; want %s", status, got, err, want)
	}
}

// The first status decides, on whichever node, for every algorithm. Only the limits that do not count it
// give back what the request took.
func TestSettle(t *testing.T) {
	for _, algorithm := range []string{"token_bucket", "fixed_window", "sliding_log", "sliding_window"} {
		rules := strings.ReplaceAll(logins, "ALGORITHM", algorithm)
		counts := memory.New(memory.Options{Clock: testkit.NoonClock})
		a, b := newNode(t, counts, rules), newNode(t, counts, rules)
		for i, step := range []struct {
			status int
			twice  bool
			want   string
			left   [3]int64
		}{
			{401, false, "[wrong] [broken]", [3]int64{4, 5, 99}},
			{200, false, "[] [wrong broken]", [3]int64{4, 5, 98}},
			{503, false, "[broken] [wrong]", [3]int64{4, 4, 97}},
			{200, true, "[] [wrong broken wrong]", [3]int64{4, 4, 96}},
			{401, true, "[wrong wrong] [broken]", [3]int64{2, 4, 95}},
		} {
			text := a.reserve(t, step.twice)
			b.settle(t, text, step.status, step.want)
			for _, again := range []int{200, 401, 503} {
				a.settle(t, text, again, step.want)
			}
			if left := b.left(t); left != step.left {
				t.Errorf("%s, step %d: %v remain, want %v", algorithm, i, left, step.left)
			}
		}
		for range 2 {
			a.settle(t, a.reserve(t, false), 401, "[wrong] [broken]")
		}
		if text := a.reserve(t, false); text != "" {
			t.Errorf("%s: a denied request has the reservation %s", algorithm, text)
		}
	}
}

// Many callers settle one reservation at once, some of each kind: all get one outcome, and it is the one
// that holds.
func TestSettleAtOnce(t *testing.T) {
	counts := memory.New(memory.Options{Clock: testkit.NoonClock})
	a, b := newNode(t, counts, strings.ReplaceAll(logins, "ALGORITHM", "sliding_log")), newNode(t, counts, strings.ReplaceAll(logins, "ALGORITHM", "sliding_log"))
	for round := range 20 {
		before := a.left(t)[0]
		text := a.reserve(t, false)
		var group sync.WaitGroup
		outcomes := make([]string, 16)
		for i := range outcomes {
			group.Go(func() {
				o, err := []*node{a, b}[i%2].Settle(t.Context(), text, []int{401, 200}[i/2%2])
				outcomes[i] = fmt.Sprint(o.Charged, err)
			})
		}
		group.Wait()
		want := before
		if outcomes[0] == "[wrong] <nil>" {
			want--
		}
		if different := slices.Compact(outcomes); len(different) != 1 || a.left(t)[0] != want {
			t.Fatalf("round %d: outcomes %v, %d remain of %d", round, different, a.left(t)[0], before)
		}
		if want == before {
			continue
		}
		testkit.Must(t, a.limiter.Decide(t.Context(), &limiter.Request{Domain: "api", Op: stint.Reset, Descriptors: request(1, false).Descriptors}, new(limiter.Verdict)))
	}
}

// What no node signed is refused, whichever byte is wrong.
func TestForged(t *testing.T) {
	n := newNode(t, memory.New(memory.Options{}), strings.ReplaceAll(logins, "ALGORITHM", "sliding_log"))
	text := n.reserve(t, false)
	forged := []string{"", "x", "AAAA", text[:len(text)-1], text + "A", text + "=", strings.Repeat("A", 100), strings.Repeat("A", 10_000)}
	for i := range text {
		other := byte('A')
		if text[i] == other {
			other = 'B'
		}
		forged = append(forged, text[:i]+string(other)+text[i+1:])
	}
	for _, f := range forged {
		if _, err := n.Settle(t.Context(), f, 200); !errors.Is(err, reservation.ErrForged) {
			t.Errorf("%q: %v", f, err)
		}
	}
	stranger := reservation.New(n.limiter, nil, nil)
	if _, err := stranger.Settle(t.Context(), text, 200); !errors.Is(err, reservation.ErrForged) {
		t.Errorf("with another secret: %v", err)
	}
	for _, status := range []int{-1, 0, 99, 600, 1 << 20} {
		if _, err := n.Settle(t.Context(), text, status); !errors.Is(err, reservation.ErrStatus) {
			t.Errorf("status %d: %v", status, err)
		}
	}
	if left := n.left(t); left != [3]int64{4, 4, 99} {
		t.Errorf("%v remain", left)
	}
	n.settle(t, text, 200, "[] [wrong broken]")
}

// The protected form of a value is no signature: clients choose values, and see this form of them where
// subjects are shown.
func TestForgedByValue(t *testing.T) {
	n := newNode(t, memory.New(memory.Options{}), strings.ReplaceAll(logins, "ALGORITHM", "sliding_log"))
	genuine, err := base64.RawURLEncoding.DecodeString(n.reserve(t, false))
	testkit.Must(t, err)
	data := genuine[:len(genuine)-sha256.Size]
	data[1]++ // another reservation
	keys := rule.NewKeySecret(secret)
	for _, value := range []string{string(data), "reservation\n" + string(data)} {
		shown := keys.Append(nil, value)
		for _, sign := range [][]byte{shown, shown[1:]} {
			forged := base64.RawURLEncoding.EncodeToString(append(slices.Clone(data), sign...))
			if _, err := n.Settle(t.Context(), forged, 200); !errors.Is(err, reservation.ErrForged) {
				t.Errorf("signed by the protected form of %q: %v", value, err)
			}
		}
	}
}

// After ten minutes a reservation stays charged, but who settled it in time still gets the outcome.
func TestLate(t *testing.T) {
	n := newNode(t, memory.New(memory.Options{Clock: testkit.NoonClock}), strings.ReplaceAll(logins, "ALGORITHM", "fixed_window"))
	settled, late := n.reserve(t, false), n.reserve(t, false)
	n.settle(t, settled, 401, "[wrong] [broken]")
	n.ahead = stint.MaxReservation + time.Second
	for range 2 {
		if _, err := n.Settle(t.Context(), late, 200); !errors.Is(err, reservation.ErrLate) {
			t.Errorf("too late: %v", err)
		}
	}
	n.settle(t, settled, 200, "[wrong] [broken]")
	if left := n.left(t); left != [3]int64{3, 4, 98} {
		t.Errorf("%v remain", left)
	}
}

// If the store is away or its answer is lost, the caller gets an error and may try again.
func TestStoreFails(t *testing.T) {
	n := newNode(t, memory.New(memory.Options{Clock: testkit.NoonClock}), strings.ReplaceAll(logins, "ALGORITHM", "token_bucket"))
	text := n.reserve(t, false)
	n.store.away.Store(true)
	if _, err := n.Settle(t.Context(), text, 200); !errors.Is(err, errAway) {
		t.Fatalf("away: %v", err)
	}
	n.store.away.Store(false)
	n.store.lose.Store(true)
	if _, err := n.Settle(t.Context(), text, 200); !errors.Is(err, stint.ErrUnknown) {
		t.Fatalf("lost: %v", err)
	}
	n.store.lose.Store(false)
	n.settle(t, text, 401, "[] [wrong broken]")
	if left := n.left(t); left != [3]int64{5, 5, 99} {
		t.Errorf("%v remain", left)
	}
}

// A reload in between changes nothing, and a limit that is gone keeps its units.
func TestReload(t *testing.T) {
	n := newNode(t, memory.New(memory.Options{Clock: testkit.NoonClock}), strings.ReplaceAll(logins, "ALGORITHM", "sliding_log"))
	more, gone := n.reserve(t, false), n.reserve(t, false)
	n.limiter.Swap(table(t, strings.ReplaceAll(strings.ReplaceAll(logins, "ALGORITHM", "sliding_log"), "requests: 5,", "requests: 50,")))
	n.settle(t, more, 200, "[] [wrong broken]")
	if left := n.left(t); left != [3]int64{49, 49, 98} {
		t.Errorf("%v remain", left)
	}
	n.limiter.Swap(table(t, "domain: api\ndescriptors: [{key: team, rate_limit: {unit: hour, requests_per_unit: 100}}]\n"))
	n.settle(t, gone, 200, "[wrong broken] []")
}

// What is given back is not used: the history has what the limit counts.
func TestHistory(t *testing.T) {
	counts := memory.New(memory.Options{Clock: testkit.NoonClock})
	n := newNode(t, counts, `
domain: api
plans: {free: {wrong: {requests: 5, per: 15m}}}
default_plan: free
descriptors: [{key: user, rate_limit: {plan: wrong, count: responses, statuses: [401], usage: 1, notify: [80%]}}]
`)
	kept, back := n.reserve(t, false), n.reserve(t, false)
	n.settle(t, kept, 401, "[api/user] []")
	n.settle(t, back, 200, "[] [api/user]")
	n.settle(t, back, 200, "[] [api/user]")
	err := counts.Usages(t.Context(), func(u transaction.Usage) bool {
		if u.Subject != "user=a" || len(u.History) != 1 || u.History[0].Used != 1 {
			t.Errorf("the history is %+v, want one unit of user=a in one period", u)
		}
		return true
	})
	testkit.Must(t, err)
}

// The answers that count are those of the limit's plan, also if the limit of the default plan counts others or
// requests.
func TestPlans(t *testing.T) {
	const planned = `
domain: api
plans:
  free: {wrong: {requests: 5, per: 15m}, broken: {requests: 5, per: 15m, count: responses, statuses: [401]}}
  pro:
    wrong: {requests: 50, per: 15m, count: responses, statuses: [401]}
    broken: {requests: 50, unit: month, time_zone: UTC, anchor: subscription, count: responses, statuses: [5xx]}
default_plan: DEFAULT
descriptors:
  - {key: user, rate_limit: {plan: wrong, name: wrong}}
  - {key: broken, rate_limit: {plan: broken, name: broken}}
`
	for _, test := range []struct {
		plan   string
		status int
		want   string
	}{
		{"free", 200, "[] [broken]"},
		{"free", 401, "[broken] []"},
		{"free", 503, "[] [broken]"},
		{"pro", 200, "[] [wrong broken]"},
		{"pro", 401, "[wrong] [broken]"},
		{"pro", 503, "[broken] [wrong]"},
	} {
		n := newNode(t, memory.New(memory.Options{Clock: testkit.NoonClock}), strings.ReplaceAll(planned, "DEFAULT", test.plan))
		text := n.reserve(t, false)
		n.limiter.Swap(table(t, strings.ReplaceAll(planned, "DEFAULT", "free"))) // a limit is known by its plan
		n.settle(t, text, test.status, test.want)
	}
}

// A request without a limit that counts responses has a reservation too, so that callers need not know the
// rules.
func TestNothingReserved(t *testing.T) {
	n := newNode(t, memory.New(memory.Options{}), "domain: api\ndescriptors: [{key: team, rate_limit: {unit: hour, requests_per_unit: 100}}]\n")
	n.settle(t, n.reserve(t, false), 401, "[] []")
}

// Reading what strangers send takes little memory for each byte.
func TestDecodersAreFrugal(t *testing.T) {
	n := newNode(t, memory.New(memory.Options{}), strings.ReplaceAll(logins, "ALGORITHM", "sliding_log"))
	seeds := [][]byte{[]byte(n.reserve(t, false)), []byte(strings.Repeat("A", 1<<20)), []byte(strings.Repeat("=", 1<<20)), nil}
	testkit.Frugal(t, seeds, func(input []byte) {
		_, _ = n.Settle(context.Background(), string(input), 200) // only the memory counts
	})
}

// granting are records in which everybody has a grant of a limit.
type granting []limiter.Grant

func (granting) Mentions(string) bool                              { return true }
func (g granting) Lookup(string, string) limiter.Known             { return g }
func (granting) BannedNetwork(netip.Prefix) (t time.Time, is bool) { return t, false }
func (granting) Misfit(*rule.Rule, error)                          {}
func (granting) Ban() (t time.Time, is bool)                       { return t, false }
func (granting) Plan(time.Time) (name string, t time.Time)         { return "", t }
func (granting) Override(string, time.Time) (o limiter.Override, is bool) {
	return o, false
}

func (g granting) AppendGrants(to []limiter.Grant, _ string, _ time.Time) []limiter.Grant {
	return append(to, g...)
}

// What a reservation gives back returns to the grant that it was charged to, also where a request took from one key
// twice.
func TestGrantsOfReservations(t *testing.T) {
	g := granting{{ID: "first", Units: 3, Until: stint.At(time.Now().Add(time.Hour))}, {ID: "last", Units: 4, Priority: 200, Until: stint.At(time.Now().Add(time.Hour))}}
	counts := memory.New(memory.Options{})
	rules := table(t, `
domain: api
plans: {free: {api: {requests: 2, per: 1h}}}
default_plan: free
descriptors: [{key: user, rate_limit: {plan: api, count: responses, statuses: [401]}}]
`)
	l := limiter.New(counts, rules, limiter.Options{Records: g})
	without := limiter.New(counts, rules, limiter.Options{})
	r := reservation.New(l, rule.NewKeySecret(secret), nil)
	left := func() [2]int64 {
		t.Helper()
		var of [2]int64
		for i, l := range []*limiter.Limiter{l, without} {
			var v limiter.Verdict
			testkit.Must(t, l.Decide(t.Context(), &limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{{Entries: []rule.Entry{{Key: "user", Value: "a"}}}}}, &v))
			of[i] = v.Remaining
		}
		return of
	}
	one := limiter.Descriptor{Entries: []rule.Entry{{Key: "user", Value: "a"}}, Cost: 3}
	for status, want := range map[int][2]int64{401: {3, 0}, 200: {9, 2}} {
		for _, all := range [][]limiter.Descriptor{{one, one}, {{Entries: one.Entries, Cost: 6}}} {
			var v limiter.Verdict
			testkit.Must(t, l.Decide(t.Context(), &limiter.Request{Domain: "api", Answers: true, Descriptors: all}, &v))
			text := r.Issue(&v)
			if got := left(); !v.Allowed || got != [2]int64{3, 0} {
				t.Fatalf("reserved: %v remain, %+v", got, v.Decision)
			}
			if _, err := r.Settle(t.Context(), text, status); err != nil || left() != want {
				t.Fatalf("status %d: %v remain, want %v, %v", status, left(), want, err)
			}
			testkit.Must(t, l.Undo(t.Context(), &v)) // for the next round
			if got := left(); got != [2]int64{9, 2} {
				t.Fatalf("undone: %v remain", got)
			}
		}
	}
}
