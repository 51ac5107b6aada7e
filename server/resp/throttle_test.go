package resp

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"stint/internal/testkit"
)

// cell is redis-cell as its contract describes it, for a key: see CL.THROTTLE.
type cell struct{ tat time.Time }

// throttle returns the five numbers of redis-cell.
func (c *cell) throttle(now time.Time, burst, count, period, quantity int64) [5]int64 {
	t := time.Duration(float64(period) * 1e9 / float64(count))
	limit := burst + 1
	depth := t * time.Duration(limit)
	tat := c.tat
	if tat.Before(now) {
		tat = now
	}
	next := tat.Add(t * time.Duration(quantity))
	seconds := func(d time.Duration) int64 {
		s := int64(d / time.Second)
		if d%time.Second >= time.Millisecond {
			s++
		}
		return s
	}
	left := func(at time.Time) int64 { return max(0, int64((depth-at.Sub(now))/t)) }
	if wait := next.Add(-depth).Sub(now); wait > 0 {
		retry := seconds(wait)
		if quantity > limit {
			retry = -1
		}
		return [5]int64{1, limit, left(tat), retry, seconds(tat.Sub(now))}
	}
	c.tat = next
	return [5]int64{0, limit, left(next), -1, seconds(next.Sub(now))}
}

// CL.THROTTLE answers as redis-cell does, at any time, for rates whose spacing is a number of
// microseconds: Stint counts in those.
func TestThrottle(t *testing.T) {
	address, _, now := start(t, Options{})
	c := dial(t, address)
	random := rand.New(rand.NewPCG(1, 2))
	rates := [][3]int64{{0, 1, 1}, {2, 5, 60}, {15, 30, 60}, {9, 10, 1}, {99, 100, 10}, {0, 4, 1}, {1000, 1000, 1}, {3, 1, 3600}, {0, 1, 86400}}
	for i, r := range rates {
		key, model := fmt.Sprint("key", i), new(cell)
		spacing := time.Duration(r[2]) * time.Second / time.Duration(r[1])
		for n := range 300 {
			now.pass(time.Duration(random.Int64N(int64(2 * spacing))).Truncate(time.Microsecond))
			quantity := random.Int64N(4)
			if n%50 == 49 {
				quantity = r[0] + 2
			}
			w := model.throttle(now.read(), r[0], r[1], r[2], quantity)
			want := fmt.Sprintf("(%d %d %d %d %d)", w[0], w[1], w[2], w[3], w[4])
			if got := c.send(fmt.Sprintf("CL.THROTTLE %s %d %d %d %d", key, r[0], r[1], r[2], quantity)); got != want {
				t.Fatalf("rate %v, step %d, quantity %d: %s, want %s", r, n, quantity, got, want)
			}
		}
	}
}

// The edges of CL.THROTTLE, and what it does better than redis-cell.
func TestThrottleEdges(t *testing.T) {
	address, _, now := start(t, Options{})
	c := dial(t, address)
	for _, step := range []struct {
		pass          time.Duration
		command, want string
	}{
		{0, "CL.THROTTLE k 2 5 60", "(0 3 2 -1 12)"},
		{0, "CL.THROTTLE k 2 5 60 2", "(0 3 0 -1 36)"},
		{0, "CL.THROTTLE k 2 5 60 0", "(0 3 0 -1 36)"},
		{0, "CL.THROTTLE k 2 5 60", "(1 3 0 12 36)"},
		{0, "CL.THROTTLE k 2 5 60 4", "(1 3 0 -1 36)"},
		{0, "CL.THROTTLE k 2 5 60 99999999999", "(1 3 0 -1 36)"},
		{0, "TTL k", "36"},
		{0, "PTTL k", "36000"},
		{0, "EXISTS k none k", "2"},
		// A key whose rate is raised is not denied for what it used: three of eleven are used.
		{0, "CL.THROTTLE k 10 100 60 8", "(0 11 0 -1 7)"},
		{0, "CL.THROTTLE k 1 100 60 0", "(0 2 0 -1 7)"}, // and remaining is never above the limit
		{0, "DEL k none", "1"},
		{0, "EXISTS k", "0"},
		{0, "TTL k", "-2"},
		{0, "CL.THROTTLE k 2 5 60 -1", "-Cell error: the quantity is negative: give 0 to look, and DEL to give everything back"},
		{0, "CL.THROTTLE k -1 5 60", "(1 0 0 -1 0)"},
		{0, "CL.THROTTLE k 2 5", "-" + cellUsage},
		{0, "CL.THROTTLE k 2 5 60 1 1", "-" + cellUsage},
		{0, "CL.THROTTLE", "-" + cellUsage},
		{0, "CL.THROTTLE k x 5 60", "-Cell error: Couldn't parse as integer: x"},
		{0, "CL.THROTTLE k 2 0 60", "-Cell error: count per period is not a number from 1 to 4294967295"},
		{0, "CL.THROTTLE k 2 5 0", "-Cell error: period is not a number of seconds from 1 to 31622400, 366 days"},
		{0, "CL.THROTTLE k 2 5 31622401", "-Cell error: period is not a number of seconds from 1 to 31622400, 366 days"},
		{0, "CL.THROTTLE k 9223372036854775807 5 60", "-Cell error: max_burst is not a number from 0 to 4294967294"},
		{0, "CL.THROTTLE a 0 1 2", "(0 1 0 -1 2)"},
		{999 * time.Millisecond, "CL.THROTTLE a 0 1 2", "(1 1 0 2 2)"}, // 1.001 s
		{500 * time.Microsecond, "CL.THROTTLE a 0 1 2", "(1 1 0 1 1)"}, // 1.0005 s: less than a millisecond over
		{1000500 * time.Microsecond, "CL.THROTTLE a 0 1 2", "(0 1 0 -1 2)"},
	} {
		now.pass(step.pass)
		if got := c.send(step.command); got != step.want {
			t.Errorf("%s: %s, want %s", step.command, got, step.want)
		}
	}
	binary := "\xff\x00\r\n"
	if got := c.sendArgs("CL.THROTTLE", binary, "0", "1", "60"); got != "(0 1 0 -1 60)" {
		t.Errorf("a binary key: %s", got)
	}
	if got := c.sendArgs("CL.THROTTLE", binary+"x", "0", "1", "60"); got != "(0 1 0 -1 60)" {
		t.Errorf("another binary key: %s", got)
	}
}

// A key that only another node asked for exists, and its time is not known.
func TestUnknownNumbers(t *testing.T) {
	address, s, _ := start(t, Options{})
	c := dial(t, address)
	c.send("CL.THROTTLE k 2 5 60")
	for i := range s.numbers.keys {
		s.numbers.keys[i].Store(0)
	}
	for command, want := range map[string]string{"TTL k": "-1", "EXISTS k": "1", "TTL other": "-2"} {
		if got := c.send(command); got != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
	if got := c.send("DEL k"); got != "1" {
		t.Error(got)
	}
	if got := c.send("CL.THROTTLE k 2 5 60"); got != "(0 3 2 -1 12)" {
		t.Errorf("after DEL: %s", got)
	}
}

// TTL is known of nearly all of ten thousand keys, and of what was asked last, however many rates were
// asked before.
func TestTTLIsKnown(t *testing.T) {
	address, _, _ := start(t, Options{})
	c := dial(t, address)
	const n, batch = 10_000, 500
	send := func(count int, command func(i int) []string, answered func(got string)) {
		for from := 0; from < count; from += batch {
			var all strings.Builder
			for i := from; i < from+batch; i++ {
				all.WriteString(wire(command(i)...))
			}
			_, err := io.WriteString(c, all.String())
			testkit.Must(t, err)
			for range batch {
				answered(c.answer())
			}
		}
	}
	throttled := func(got string) {
		if !strings.HasPrefix(got, "(0") {
			t.Fatal(got)
		}
	}
	send(n, func(i int) []string { return []string{"CL.THROTTLE", fmt.Sprint("k", i), "5", "1", "60"} }, throttled)
	unknown := 0
	send(n, func(i int) []string { return []string{"TTL", fmt.Sprint("k", i)} }, func(got string) {
		if got == "-1" {
			unknown++
		} else if got != "60" {
			t.Fatalf("TTL is %s", got)
		}
	})
	if unknown > 10 {
		t.Errorf("of %d keys TTL is unknown for %d", n, unknown)
	}
	send(4*bucketSlots/batch*batch, func(i int) []string {
		return []string{"CL.THROTTLE", fmt.Sprint("r", i), "5", "1", fmt.Sprint(3600 + i)}
	}, throttled)
	c.send("CL.THROTTLE last 5 1 61")
	if got := c.send("TTL last"); got != "61" {
		t.Errorf("after many rates TTL is %s", got)
	}
}

// More rates than the cache has places for are right too.
func TestManyRates(t *testing.T) {
	address, _, _ := start(t, Options{})
	c := dial(t, address)
	const batch = 512
	for from := int64(1); from <= 2*bucketSlots; from += batch {
		var all strings.Builder
		for i := from; i < from+batch; i++ {
			all.WriteString(wire("CL.THROTTLE", fmt.Sprint("k", i), fmt.Sprint(i), "1", "60"))
		}
		_, err := io.WriteString(c, all.String())
		testkit.Must(t, err)
		for i := from; i < from+batch; i++ {
			if got, want := c.answer(), fmt.Sprintf("(0 %d %d -1 60)", i+1, i); got != want {
				t.Fatalf("burst %d: %s, want %s", i, got, want)
			}
		}
	}
}
