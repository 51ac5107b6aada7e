package line

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// zero is the time at which tests begin.
var zero = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return zero.Add(d) }

// id returns the line of a rule and a key, such as a/1.
func id(rule string, key byte) ID { return ID{Domain: "api", Rule: rule, Key: [16]byte{key}} }

// ten are the bounds of a rule of 10 per second.
var ten = Settings{MaxWait: 5 * time.Second, Places: 1000, PerKey: 100, Rate: Rate{Lot: 1, Every: 100 * time.Millisecond}}

// order returns the places of a line from the first to the last.
func order(l *Lines, id ID) (places []*Place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if found := l.lines[id]; found != nil {
		for e := found.places.Front(); e != nil; e = e.Next() {
			places = append(places, e.Value.(*Place))
		}
	}
	return places
}

// refusal returns the outcome and the time of an error; "" for nil.
func refusal(err error) string {
	if err == nil {
		return ""
	}
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok {
		return err.Error()
	}
	return fmt.Sprintf("%v %v", refused.Outcome, refused.RetryAfter)
}

// The bounds of a line: places of a key, places of a rule, and the time that those before need.
func TestBounds(t *testing.T) {
	few := ten
	few.Places, few.PerKey = 5, 3
	short := ten
	short.MaxWait = 250 * time.Millisecond
	windows := ten
	windows.Rate = Rate{Lot: 2, Every: time.Second}
	windows.MaxWait = 2 * time.Second
	unknown := short
	unknown.Rate = Rate{}
	for _, tt := range []struct {
		name     string
		settings Settings
		joins    string // keys, in order; a capital costs 3 units
		want     string // the answer of the last one; all others get a place
	}{
		{"the last place of a key", few, "aaa", ""},
		{"a place too much of a key", few, "aaaa", "full 400ms"},
		{"another key", few, "aaabb", ""},
		{"a place too much of the rule", few, "aaabbb", "full 300ms"},
		{"a place too much of the rule, first of its key", few, "aaabbc", "full 100ms"},
		{"in time", short, "aa", ""},
		{"late", short, "aaa", "late 300ms"},
		{"late for its cost", short, "aA", "late 400ms"},
		{"behind a costly one", short, "Aa", ""},
		{"the same lot", windows, "aa", ""},
		{"the second lot", windows, "aaa", ""},
		{"the end of the second lot", windows, "aaaa", ""},
		{"the third lot", windows, "aaaaa", "late 2.1s"},
		{"a rate that is not known", unknown, "aaaaaaa", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, got := New(), ""
			for i, key := range []byte(tt.joins) {
				r := Request{ID: id("a", key|0x20), Settings: tt.settings, Cost: 1, RoomAt: at(100 * time.Millisecond)}
				if key < 'a' {
					r.Cost = 3
				}
				_, err := l.Join(zero, &r)
				if got = refusal(err); got != "" && i < len(tt.joins)-1 {
					t.Fatalf("place %d: %s", i, got)
				}
			}
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// A request that knows when the limit has room is refused at once if that is too late.
func TestLateAtOnce(t *testing.T) {
	l := New()
	if _, err := l.Join(zero, &Request{ID: id("a", 1), Settings: ten, Cost: 1, RoomAt: at(6 * time.Second)}); refusal(err) != "late 6s" {
		t.Error(refusal(err))
	}
	if l.Any() || len(l.lines) != 0 {
		t.Errorf("a refused request left %d lines", len(l.lines))
	}
}

// After the first one passed the next takes when the limit has its next unit: by the clock of the limit,
// not by that of the timer, which was late.
func TestNextTry(t *testing.T) {
	for _, tt := range []struct {
		name      string
		rate      Rate
		outcome   Outcome
		remaining int64
		want      time.Duration
	}{
		{"the next unit", ten.Rate, Passed, 0, 200 * time.Millisecond},
		{"there is more", ten.Rate, Passed, 1, 107 * time.Millisecond},
		{"windows", Rate{Lot: 5, Every: time.Second}, Passed, 0, 107 * time.Millisecond},
		{"unknown", Rate{}, Passed, 0, 107 * time.Millisecond},
		{"the client disconnected", ten.Rate, Gone, 0, 100 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, s := New(), ten
			s.Rate = tt.rate
			r := Request{ID: id("a", 1), Settings: s, Cost: 1, RoomAt: at(100 * time.Millisecond)}
			first, err := l.Join(zero, &r)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Join(zero, &r); err != nil {
				t.Fatal(err)
			}
			first.Leave(at(107*time.Millisecond), tt.outcome, tt.remaining)
			tryAt, blocks := l.Blocks(r.ID, nil)
			if !blocks || tryAt != at(tt.want) {
				t.Errorf("blocks %v, takes at %v, want %v", blocks, tryAt.Sub(zero), tt.want)
			}
		})
	}
}

// Stats count each request once, and stay when nobody waits, until the rule is gone.
func TestStats(t *testing.T) {
	l, few := New(), ten
	few.Places = 2
	a := Request{ID: id("a", 1), Settings: few, Cost: 1, RoomAt: at(100 * time.Millisecond)}
	b := a
	b.ID = id("b", 1)
	first, _ := l.Join(zero, &a)
	second, _ := l.Join(zero, &a)
	if _, err := l.Join(zero, &a); err == nil {
		t.Fatal("a third one of two")
	}
	if err := first.Move(at(time.Second), &b); err != nil {
		t.Fatal(err)
	}
	first.Leave(at(3*time.Second), Passed, 0)
	first.Leave(at(3*time.Second), Gone, 0) // it left already
	second.Leave(at(4*time.Second), Gone, 0)
	want := []Stats{
		{Domain: "api", Rule: "a", Entered: 2, Waited: 5 * time.Second},
		{Domain: "api", Rule: "b", Entered: 1, Waited: 2 * time.Second},
	}
	want[0].Left[Moved], want[0].Left[Gone], want[0].Refused[Full] = 1, 1, 1
	want[1].Left[Passed] = 1
	if got := l.Stats(); !slices.Equal(got, want) || l.Any() {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	l.Changed(at(5*time.Second), func(_, rule string) bool { return rule == "b" })
	if got := l.Stats(); !slices.Equal(got, want[1:]) {
		t.Errorf("got  %+v\nwant %+v", got, want[1:])
	}
}

// modelLine is a line as anybody would describe it: who waits in it now, in the order in which they
// first came.
type modelLine struct {
	came []*Place
	in   map[*Place]bool
}

func (m *modelLine) order() []*Place {
	return slices.DeleteFunc(slices.Clone(m.came), func(p *Place) bool { return !m.in[p] })
}

// join lets a place come, at its old position if it came before.
func (m *modelLine) join(p *Place) {
	if !slices.Contains(m.came, p) {
		m.came = append(m.came, p)
	}
	m.in[p] = true
}

// A random history of lines is that of the model: nobody overtakes, nobody is forgotten, and no bound
// is exceeded.
func TestModel(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 1))
		l, model := New(), map[ID]*modelLine{}
		var ids []ID
		for _, rule := range []string{"a", "b"} {
			for key := range byte(3) {
				ids = append(ids, id(rule, key))
				model[id(rule, key)] = &modelLine{in: map[*Place]bool{}}
			}
		}
		s := Settings{MaxWait: time.Hour, Places: 8, PerKey: 4}
		where := map[*Place]ID{}
		now := zero
		for step := range 300 {
			now = now.Add(time.Duration(r.IntN(1000)) * time.Millisecond)
			to := ids[r.IntN(len(ids))]
			ofRule := 0
			for _, other := range where {
				if other.Rule == to.Rule {
					ofRule++
				}
			}
			full := len(model[to].in) >= int(s.PerKey) || ofRule >= int(s.Places)
			request := &Request{ID: to, Settings: s, Cost: 1, RoomAt: now.Add(time.Second)}
			switch op := r.IntN(10); {
			case op < 5:
				p, err := l.Join(now, request)
				if (err != nil) != full {
					t.Fatalf("seed %d, step %d: join: %v, full: %v", seed, step, err, full)
				}
				if err == nil {
					model[to].join(p)
					where[p] = to
				}
			case len(where) == 0:
			default:
				from := ids[r.IntN(len(ids))]
				waiting := model[from].order()
				if len(waiting) == 0 {
					continue
				}
				p := waiting[r.IntN(len(waiting))]
				if op < 8 {
					p.Leave(now, Passed, 0)
					delete(model[from].in, p)
					delete(where, p)
					break
				}
				if from == to {
					continue
				}
				if from.Rule == to.Rule {
					full = len(model[to].in) >= int(s.PerKey) // it gives up a place of the same rule
				}
				err := p.Move(now, request)
				if (err != nil) != full {
					t.Fatalf("seed %d, step %d: move: %v, full: %v", seed, step, err, full)
				}
				delete(model[from].in, p)
				delete(where, p)
				if err == nil {
					model[to].join(p)
					where[p] = to
				}
			}
			for _, id := range ids {
				want := model[id].order()
				if got := order(l, id); !slices.Equal(got, want) {
					t.Fatalf("seed %d, step %d: line %v: %d places, want %d, or another order", seed, step, id, len(got), len(want))
				}
				if _, blocks := l.Blocks(id, nil); blocks != (len(want) > 0) {
					t.Fatalf("seed %d, step %d: line %v of %d blocks: %v", seed, step, id, len(want), blocks)
				}
				for i, p := range want {
					if _, blocks := l.Blocks(id, p); blocks != (i > 0) {
						t.Fatalf("seed %d, step %d: place %d of line %v is blocked: %v", seed, step, i, id, blocks)
					}
				}
			}
			if l.waiting.Load() != int64(len(where)) {
				t.Fatalf("seed %d, step %d: %d wait, want %d", seed, step, l.waiting.Load(), len(where))
			}
		}
		for p := range where {
			p.Leave(now, Gone, 0)
		}
		for _, s := range l.Stats() {
			if s.Waiting != 0 || l.Any() || len(l.lines) != 0 {
				t.Fatalf("seed %d: %+v, %d lines", seed, s, len(l.lines))
			}
		}
	}
}
