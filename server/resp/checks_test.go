package resp

import (
	"context"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/limiter"
	"stint/rule/rulefile"
	"stint/store/memory"
)

// checks returns n random commands, mostly STINT.CHECK of a plain limit, with others and with errors between them.
func checks(random *rand.Rand, n int) (all [][]string) {
	values := []string{"a", "b", "a value", strings.Repeat("long", 100), "\r\n$1\r\n", strings.Repeat("x", 12345), ""}
	value := func() string { return values[random.IntN(len(values))] }
	wrong := [][]string{
		{"STINT.CHECK", "api", "1", "user"},
		{"STINT.CHECK", "api", "2", "user", "a"},
		{"STINT.CHECK", "", "1", "user", "a"},
		{"STINT.CHECK", "api", "x", "user", "a"},
		{"STINT.CHECK", "api", "1", "user", "a", "COST", "-1"},
		{"STINT.CHECK", "api", "1", "user", "a", "more"},
		{"STINT.MCHECK", "api", "2", "1", "user", "a"},
	}
	for i := range n {
		cost := strconv.Itoa(random.IntN(3))
		switch random.IntN(24) {
		case 0:
			all = append(all, wrong[random.IntN(len(wrong))])
		case 1:
			all = append(all, []string{"STINT.CHECK", "api", "1", []string{"watched", "free", "none"}[random.IntN(3)], value()})
		case 2:
			all = append(all, []string{"STINT.MCHECK", "api", "2", "1", "user", value(), "COST", cost, "2", "user", value(), "path", value()})
		case 3:
			all = append(all, []string{"CL.THROTTLE", value(), "5", "3", "60"})
		case 4:
			all = append(all, []string{"STINT.INSPECT", "api", "1", "user", value()}, []string{"STINT.RESET", "api", "1", "user", value()})
		case 5, 6:
			all = append(all, []string{"STINT.PEEK", "api", "1", "user", value(), "COST", cost})
		case 7:
			all = append(all, []string{"STINT.CHECK", "other", "1", "user", value()})
		case 8:
			all = append(all, []string{"HELLO", strconv.Itoa(2 + random.IntN(2))})
		default:
			switch i / 20 % 3 {
			case 0:
				all = append(all, []string{"STINT.CHECK", "api", "1", "user", value()})
			case 1:
				all = append(all, []string{"stint.check", "api", "1", "user", value(), "cost", cost})
			default:
				all = append(all, []string{"STINT.CHECK", "api", "2", "user", value(), "path", value()})
			}
		}
	}
	return all
}

// Pipelined STINT.CHECK have the answers that they have one by one, wherever the bytes are split, and so has what stands between them.
func TestChecksAnswerAsSingleCommands(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for round := range 20 {
		batched, _, nowBatched := start(t, Options{})
		single, _, nowSingle := start(t, Options{})
		one, many := dial(t, single), dial(t, batched)
		for range 3 {
			all := checks(random, 200)
			many.trickle(all)
			for i, args := range all {
				want, got := one.sendArgs(args...), many.answer()
				if args[0] == "HELLO" { // the number of the connection differs
					want, got = want[:4], got[:4]
				}
				if got != want {
					t.Fatalf("round %d, command %d, %.80q: %s, want %s", round, i, args, got, want)
				}
			}
			nowBatched.pass(20 * 60e9)
			nowSingle.pass(20 * 60e9)
		}
	}
}

// A command in one line between others has its own numbers, domain and descriptor, and leaves those of the others alone.
func TestLinesBetween(t *testing.T) {
	batched, _, _ := start(t, Options{})
	single, _, _ := start(t, Options{})
	one, many := dial(t, single), dial(t, batched)
	all := []string{
		wire("STINT.CHECK", "api", "1", "user", "a"), "STINT.CHECK api 2 user b path /b COST 2\r\n", wire("STINT.CHECK", "api", "1", "user", "c"),
		wire("STINT.CHECK", "api", "2", "user", "a", "path", "/c"), "STINT.PEEK api 1 user a\r\n", wire("STINT.CHECK", "api", "2", "user", "d", "path", "/c"),
		wire("CL.THROTTLE", "a", "9", "10", "60"), "CL.THROTTLE a 99 100 60 50\r\n", wire("CL.THROTTLE", "b", "9", "10", "60"), wire("PING"),
	}
	_, err := io.WriteString(many, strings.Join(all, ""))
	testkit.Must(t, err)
	for i, command := range all {
		_, err := io.WriteString(one, command)
		testkit.Must(t, err)
		if want, got := one.answer(), many.answer(); got != want {
			t.Errorf("command %d, %q: %s, want %s", i, command, got, want)
		}
	}
}

// counting is a store that counts calls.
type counting struct {
	stint.Store
	calls atomic.Int64
}

func (c *counting) Decide(ctx context.Context, call *stint.Call) error {
	c.calls.Add(1)
	return c.Store.Decide(ctx, call)
}

// A pipeline of STINT.CHECK is one call to the store in memory, and a command of several limits has a call of its own.
func TestChecksAreOneCall(t *testing.T) {
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte(rules)})
	testkit.Must(t, err)
	store := &counting{Store: memory.New(memory.Options{})}
	s := New(limiter.New(store, table, limiter.Options{}), Options{})
	c := dial(t, serve(t, s))
	check := wire("STINT.CHECK", "api", "1", "user", "ann") + wire("STINT.CHECK", "api", "2", "user", "ann", "path", "/a")
	many := wire("STINT.MCHECK", "api", "2", "1", "user", "bob", "1", "user", "eve")
	_, err = io.WriteString(c, strings.Repeat(check, 10)+many+strings.Repeat(check, 5)+wire("STINT.CHECK", "api", "1", "watched", "x"))
	testkit.Must(t, err)
	for i := range 32 {
		if got := c.answer(); !strings.HasPrefix(got, "(allowed ") {
			t.Fatalf("answer %d: %s", i, got)
		}
	}
	if n := store.calls.Load(); n != 4 {
		t.Errorf("%d calls, want 4", n)
	}
}

// A command that nothing follows is in no batch, and is parsed once, by what answers it.
func TestSingleCheckIsParsedOnce(t *testing.T) {
	s := New(limiter.New(memory.New(memory.Options{}), nil, limiter.Options{}), Options{})
	c := &conn{in: newReader(strings.NewReader(""), true, new(room)), desk: desk{server: s}}
	args := [][]byte{[]byte("STINT.CHECK"), []byte("api"), []byte("1"), []byte("user"), []byte("ann")}
	if c.laterCheck(args, false) || len(c.entries) > 0 {
		t.Errorf("it was parsed for a batch: %q", c.entries)
	}
}

// What is kept of one answer for the next one is never seen in an answer that differs.
func TestAnswersAreApart(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	kept := desk{}
	for range 5000 {
		d := stint.Decision{Allowed: random.IntN(2) == 0, Limit: []int64{0, 5, 50, stint.NoLimit}[random.IntN(4)], Remaining: random.Int64N(12)}
		d.Degraded, d.Over = random.IntN(4) == 0, random.IntN(4) == 0
		d.Delay, d.RetryAfter, d.ResetAfter = time.Duration(random.IntN(2)), time.Duration(random.IntN(2)), time.Duration(random.IntN(3)*1e9)
		rule, unmatched, reason := []string{"", "a", "b", "ab"}[random.IntN(4)], random.IntN(4) == 0, []limiter.Reason{"", limiter.ReasonRateLimited}[random.IntN(2)]
		kept.out = reply{version: 2 + random.IntN(2)}
		fresh := desk{out: kept.out}
		kept.decision(rule, &d, unmatched, reason)
		fresh.decision(rule, &d, unmatched, reason)
		r := reply{version: fresh.out.version}
		for _, field := range []struct {
			name string
			add  func()
		}{
			{"allowed", func() { r.truth(d.Allowed) }},
			{"rule", func() { r.text(rule) }},
			{"limit", func() { r.units(d.Limit) }},
			{"remaining", func() { r.units(d.Remaining) }},
			{"retry_after_ms", func() { r.millis(d.RetryAfter) }},
			{"reset_after_ms", func() { r.millis(d.ResetAfter) }},
			{"delay_ms", func() { r.millis(d.Delay) }},
			{"degraded", func() { r.truth(d.Degraded) }},
			{"over", func() { r.truth(d.Over) }},
			{"matched", func() { r.truth(!unmatched) }},
		} {
			r.text(field.name)
			field.add()
		}
		if r.text("reason"); reason == "" {
			r.null()
		} else {
			r.text(string(reason))
		}
		if got, want := string(kept.out.buf), string(r.buf); got != want || string(fresh.out.buf) != want {
			t.Fatalf("%+v: %q, alone %q, want %q", d, got, fresh.out.buf, want)
		}
	}
}
