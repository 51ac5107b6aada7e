package resp

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"stint/internal/testkit"
	"stint/limiter"
)

// pipeline returns n random commands, mostly CL.THROTTLE of few keys, with and without errors.
func pipeline(random *rand.Rand, n int) (all [][]string) {
	keys := []string{"a", "b", "a key", strings.Repeat("long", 40), "\r\n$1\r\n", strings.Repeat("x", 12345), ""}
	numbers := [][]string{{"5", "3", "60"}, {"5", "3", "60", "1"}, {"5", "3", "60", "2"}, {"50", "3", "60"}}
	wrong := [][]string{
		{"CL.THROTTLE", "a"},
		{"CL.THROTTLE", "a", "5", "x", "60"},
		{"CL.THROTTLE", "a", "5", "3", "60", "-1"},
		{"CL.THROTTLE", "a", "-1", "3", "60"},
		{"CL.THROTTLE", "a", "5", "3", "60", "99999999999"},
		{"CL.THROTTLE", "a", "5", "0", "60"},
		{"FOO"},
	}
	for i := range n {
		key, how := keys[random.IntN(len(keys))], numbers[i/9%len(numbers)]
		switch random.IntN(20) {
		case 0:
			all = append(all, []string{"DEL", key})
		case 1:
			all = append(all, []string{"TTL", key}, []string{"EXISTS", key})
		case 2:
			all = append(all, []string{"STINT.CHECK", "api", "1", "user", key})
		case 3:
			all = append(all, wrong[random.IntN(len(wrong))])
		case 4:
			all = append(all, slices.Concat([]string{"cl.throttle", key}, how))
		default:
			all = append(all, slices.Concat([]string{"CL.THROTTLE", key}, how))
		}
	}
	return all
}

// The commands of a pipeline have the answers that they have one by one, wherever the bytes are split.
func TestBatchesAnswerAsSingleCommands(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for round := range 30 {
		batched, _, _ := start(t, Options{})
		single, _, _ := start(t, Options{})
		all := pipeline(random, 400)
		one, many := dial(t, single), dial(t, batched)
		many.trickle(all)
		for i, args := range all {
			if want, got := one.sendArgs(args...), many.answer(); got != want {
				t.Fatalf("round %d, command %d, %.80q: %s, want %s", round, i, args, got, want)
			}
		}
	}
}

// The commands of a batch fail together with the store, each with its own answer.
func TestBatchFails(t *testing.T) {
	store := &gathering{n: 1, all: make(chan struct{})}
	s := New(limiter.New(store, nil, limiter.Options{}), Options{})
	c := dial(t, serve(t, s))
	_, err := io.WriteString(c, strings.Repeat(wire("CL.THROTTLE", "bad", "6", "1", "60"), 5)+wire("PING"))
	testkit.Must(t, err)
	for range 5 {
		if got, want := c.answer(), "-"+noDecision(errors.New("away")); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := c.answer(); got != "+PONG" {
		t.Error(got)
	}
	if n := store.arrived.Load(); n != 1 {
		t.Errorf("the store got %d calls", n)
	}
}

// A command is like the one before only if all its bytes but those of the key are the same.
func TestLike(t *testing.T) {
	head, tail := "*3\r\n$1\r\nX\r\n", "$1\r\n5\r\n"
	for _, tt := range []struct {
		rest, arg string
		ok        bool
	}{
		{head + "$2\r\nab\r\n" + tail, "ab", true},
		{head + "$2\r\nab\r\n" + tail + "more", "ab", true},
		{head + fmt.Sprintf("$999\r\n%0999d\r\n", 0) + tail, fmt.Sprintf("%0999d", 0), true},
		{head + fmt.Sprintf("$1000\r\n%01000d\r\n", 0) + tail, "", false},
		{head + "$2\r\n\r\n\r\n" + tail, "\r\n", true},
		{head + "$0\r\n\r\n" + tail, "", false},
		{head + "$02\r\nab\r\n" + tail, "", false},
		{head + "$3\r\nab\r\n" + tail, "", false},
		{head + "$2\r\nab\n\n" + tail, "", false},
		{head + "$2\n\nab\r\n" + tail, "", false},
		{head + "$2\r\nab\r\n$1\r\n6\r\n", "", false},
		{head + "$2\r\nab\r\n" + tail[:6], "", false},
		{head + "$2\r\nab", "", false},
		{head + "$12345\r\n", "", false},
		{head + "$99", "", false},
		{head + "$", "", false},
		{head, "", false},
		{"*3\r\n$1\r\nY\r\n$2\r\nab\r\n" + tail, "", false},
	} {
		r := newReader(strings.NewReader(tt.rest), true, new(room))
		testkit.Must(t, r.fill())
		last := shape{text: []byte(head + tail), ends: [maxHoles + 1]int{len(head), len(head + tail)}, holes: 1}
		var holes [maxHoles][]byte
		to, ok := r.like(&last, &holes)
		arg := holes[0]
		if ok {
			r.skip(to)
		} else {
			arg = nil // it has no meaning
		}
		if string(arg) != tt.arg || ok != tt.ok {
			t.Errorf("%q: %q, %v", tt.rest, arg, ok)
		}
		if want := strings.TrimSuffix(tt.rest, "more"); ok && r.at != len(want) {
			t.Errorf("%q: ends at %d, want %d", tt.rest, r.at, len(want))
		}
		if !ok && r.at != 0 {
			t.Errorf("%q: bytes were used", tt.rest)
		}
	}
}

// FuzzLike: a command that is like the one before has the arguments with which it is read, and ends at the same place.
func FuzzLike(f *testing.F) {
	check := wire("STINT.CHECK", "api", "2", "user", "ann", "path", "/a", "COST", "2")
	for _, rest := range []string{check, wire("STINT.CHECK", "api", "2", "user", "x", "path", strings.Repeat("y", 300), "COST", "2"), wire("STINT.CHECK", "api", "2", "user", "$1\r\n1\r\n", "path", "\r\n"), check[:30], "PING\r\n"} {
		f.Add([]byte(check), []byte(rest), 4, 2)
		f.Add([]byte(check), []byte(rest), 1, 1)
	}
	f.Fuzz(func(t *testing.T, first, rest []byte, from, n int) {
		all := newReader(strings.NewReader(string(first)+string(rest)), true, wide())
		for all.fill() == nil && len(first)+len(rest) < 1<<12 {
		}
		args, err := all.next()
		if err != nil || args == nil || all.line || from < 0 || from > 8 {
			return
		}
		var last shape
		last.set(args, from, min(max(n, 0), maxHoles))
		if last.holes == 0 {
			return
		}
		want := slices.Clone(args)
		var holes [maxHoles][]byte
		to, ok := all.like(&last, &holes)
		if !ok {
			return
		}
		for i := range last.holes {
			want[from+2*i] = holes[i]
		}
		got, err := all.next()
		if err != nil || all.at != to || !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("after %q: %q is read up to %d, %v, and is like %q up to %d", first, got, all.at, err, want, to)
		}
	})
}
