package line

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// log is who left, in order.
type log struct {
	mu   sync.Mutex
	left []int
}

func (o *log) add(number int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.left = append(o.left, number)
}

// count returns how many left.
func (o *log) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.left)
}

// is reports whether these left, in this order.
func (o *log) is(numbers ...int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Equal(o.left, numbers)
}

// waiter joins a line and waits in a goroutine of its own. It appends its number to out when it is its
// turn, and passes; the number is negative if it is refused, or its context ends.
func waiter(ctx context.Context, l *Lines, r Request, number int, out *log) {
	p, err := l.Join(time.Now(), &r)
	if err != nil {
		out.add(-number)
		return
	}
	go func() {
		if p.Wait(ctx, nil) != nil {
			p.Leave(time.Now(), Gone, 0)
			out.add(-number)
			return
		}
		out.add(number)
		p.Leave(time.Now(), Passed, 0)
	}()
	synctest.Wait()
}

// A line leaves in its order and at the rate of the limit, whatever other lines do.
func TestWaitInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, began := New(), time.Now()
		var slow, fast log
		rare := ten
		rare.Rate.Every = time.Second
		for i := range 10 {
			waiter(t.Context(), l, Request{ID: id("a", 1), Settings: ten, Cost: 1, RoomAt: began.Add(100 * time.Millisecond)}, i+1, &fast)
			waiter(t.Context(), l, Request{ID: id("a", 2), Settings: rare, Cost: 1, RoomAt: began.Add(time.Second)}, i+1, &slow)
		}
		if !slow.is(-6, -7, -8, -9, -10) {
			t.Errorf("of 10 with 1 per second %v are refused at once", slow.left)
		}
		for i := range 10 {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			if fast.count() != i+1 {
				t.Errorf("after %v %d left", time.Since(began), fast.count())
			}
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if !fast.is(1, 2, 3, 4, 5, 6, 7, 8, 9, 10) {
			t.Errorf("left in the order %v", fast.left)
		}
		if !slow.is(-6, -7, -8, -9, -10, 1, 2, 3, 4, 5) {
			t.Errorf("left in the order %v", slow.left)
		}
	})
}

// A client that disconnects frees its place at once, and the next one takes when it is time.
func TestWaitGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := New(), Request{ID: id("a", 1), Settings: ten, Cost: 1, RoomAt: time.Now().Add(time.Second)}
		first, cancel := context.WithCancel(t.Context())
		var out log
		waiter(first, l, r, 1, &out)
		waiter(t.Context(), l, r, 2, &out)
		cancel()
		synctest.Wait()
		if len(order(l, r.ID)) != 1 || !out.is(-1) {
			t.Errorf("%d places, %v left", len(order(l, r.ID)), out.left)
		}
		time.Sleep(999 * time.Millisecond)
		synctest.Wait()
		if !out.is(-1) {
			t.Errorf("the second one took early: %v", out.left)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if !out.is(-1, 2) {
			t.Errorf("%v left", out.left)
		}
	})
}

// A request whose limit has room later than was promised is refused as soon as that is known: at its
// turn, or at the end of its time.
func TestWaitLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		l, r := New(), Request{ID: id("a", 1), Settings: ten, Cost: 1, RoomAt: began.Add(time.Second)}
		first, err := l.Join(began, &r)
		if err != nil {
			t.Fatal(err)
		}
		second, err := l.Join(began, &r)
		if err != nil {
			t.Fatal(err)
		}
		if err := first.Wait(t.Context(), nil); err != nil || time.Since(began) != time.Second {
			t.Fatal(err, time.Since(began))
		}
		r.RoomAt = time.Now().Add(4*time.Second + 1)
		if got := refusal(first.Move(time.Now(), &r)); got != "late 4.000000001s" {
			t.Error(got)
		}
		if err := second.Wait(t.Context(), nil); refusal(err) != "late 4.000000001s" || time.Since(began) != time.Second {
			t.Error(err, time.Since(began))
		}
		second.Leave(time.Now(), Late, 0)

		// Who is never the first one waits no longer than allowed.
		r.RoomAt = time.Now().Add(time.Second)
		stuck, err := l.Join(time.Now(), &r)
		if err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		behind, err := l.Join(began, &r)
		if err != nil {
			t.Fatal(err)
		}
		if err := behind.Wait(t.Context(), nil); err == nil || time.Since(began) != 5*time.Second {
			t.Error(err, time.Since(began))
		}
		behind.Leave(time.Now(), Late, 0)
		stuck.Leave(time.Now(), Gone, 0)
	})
}

// A drain refuses all that wait, and all that come later.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := New(), Request{ID: id("a", 1), Settings: ten, Cost: 1, RoomAt: time.Now().Add(time.Second)}
		var out log
		for i := range 3 {
			waiter(t.Context(), l, r, i+1, &out)
		}
		l.Drain()
		l.Drain()
		synctest.Wait()
		if slices.Sort(out.left); !out.is(-3, -2, -1) || l.Any() {
			t.Errorf("%v left", out.left)
		}
		if _, err := l.Join(time.Now(), &r); refusal(err) != "drained 1s" {
			t.Error(err)
		}
	})
}

// A request that waits for two limits in turn, and comes back, has its old place there. Meanwhile its
// line goes on.
func TestMoveAndBack(t *testing.T) {
	l := New()
	a, b := Request{ID: id("a", 1), Settings: ten, Cost: 1, RoomAt: at(100 * time.Millisecond)}, Request{ID: id("b", 1), Settings: ten, Cost: 1, RoomAt: at(300 * time.Millisecond)}
	one, _ := l.Join(zero, &a)
	two, _ := l.Join(zero, &a)
	if err := one.Move(at(100*time.Millisecond), &b); err != nil {
		t.Fatal(err)
	}
	if tryAt, _ := l.Blocks(a.ID, nil); tryAt != at(100*time.Millisecond) {
		t.Errorf("the second one of a takes at %v", tryAt.Sub(zero))
	}
	three, _ := l.Join(at(150*time.Millisecond), &a)
	if _, blocks := l.Blocks(a.ID, one); blocks {
		t.Error("the first one would be behind others")
	}
	a.RoomAt = at(400 * time.Millisecond)
	if err := one.Move(at(300*time.Millisecond), &a); err != nil {
		t.Fatal(err)
	}
	if got := order(l, a.ID); !slices.Equal(got, []*Place{one, two, three}) {
		t.Errorf("not in the order in which they came")
	}
	if tryAt, _ := l.Blocks(a.ID, nil); tryAt != at(400*time.Millisecond) {
		t.Errorf("the first one takes at %v", tryAt.Sub(zero))
	}
}

// When the rules change, nobody waits for what the old ones said: the first of each line takes at once, the
// next one when it passed, and a limit that denies again gives the line its time and its new rate.
func TestChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, began := New(), time.Now()
		slow := Settings{MaxWait: time.Hour, Places: 10, PerKey: 10, Rate: Rate{Lot: 1, Every: time.Minute}}
		var out log
		denied := Request{ID: id("b", 1), Settings: slow, Cost: 1, RoomAt: began.Add(time.Minute)}
		again, err := l.Join(began, &denied)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			waiter(t.Context(), l, Request{ID: id("a", 1), Settings: slow, Cost: 1, RoomAt: began.Add(time.Minute)}, i+1, &out)
		}
		time.Sleep(time.Second)
		l.Changed(time.Now(), func(string, string) bool { return true })
		synctest.Wait()
		if !out.is(1, 2, 3) {
			t.Errorf("left at once: %v", out.left)
		}
		if err := again.Wait(t.Context(), nil); err != nil || time.Since(began) != time.Second {
			t.Errorf("the first of another line: %v after %v", err, time.Since(began))
		}
		denied.Settings.Rate.Every, denied.RoomAt = 2*time.Second, began.Add(3*time.Second)
		if err := again.Move(time.Now(), &denied); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Join(time.Now(), &denied); err != nil {
			t.Fatal(err)
		}
		again.Leave(began.Add(3*time.Second), Passed, 0)
		if tryAt, blocks := l.Blocks(denied.ID, nil); !blocks || tryAt.Sub(began) != 5*time.Second {
			t.Errorf("the next one takes after %v", tryAt.Sub(began))
		}
	})
}
