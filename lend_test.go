package stint_test

import (
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"stint"
)

var lentSpec = stint.Spec{Algorithm: stint.TokenBucket, Requests: 300, Per: time.Second, Burst: 80}

// lentModel is the simplest model of a bucket with loans: tokens are added with time, as fractions,
// while they and the lent tokens are fewer than the burst.
type lentModel struct {
	charge, burst int64
	tokens        *big.Rat
	last          int64
	loans         map[uint64]*lentLoan
}

type lentLoan struct {
	seq, grant, lent, until int64
}

func (m *lentModel) lent() (n int64) {
	for _, l := range m.loans {
		n += l.lent
	}
	return n
}

// to moves the model to a time, past each loan that is written off on the way.
func (m *lentModel) to(now int64) {
	for {
		var first *lentLoan
		var who uint64
		for node, l := range m.loans {
			if l.until <= now && (first == nil || l.until < first.until) {
				first, who = l, node
			}
		}
		if first == nil {
			m.fill(now)
			maps.DeleteFunc(m.loans, func(_ uint64, l *lentLoan) bool { return l.lent == 0 && l.until-2_000_000 <= now })
			return
		}
		m.fill(first.until)
		delete(m.loans, who)
	}
}

func (m *lentModel) fill(now int64) {
	m.tokens.Add(m.tokens, big.NewRat(now-m.last, m.charge))
	if most := big.NewRat(m.burst-m.lent(), 1); m.tokens.Cmp(most) > 0 {
		m.tokens.Set(most)
	}
	m.last = now
}

func (m *lentModel) whole() int64 {
	if m.tokens.Sign() < 0 {
		return 0
	}
	return new(big.Int).Quo(m.tokens.Num(), m.tokens.Denom()).Int64()
}

func (m *lentModel) take(n int64) { m.tokens.Sub(m.tokens, big.NewRat(n, 1)) }

// report and lend are the two halves of an ask.
func (m *lentModel) report(a *stint.Loan) {
	l := m.loans[a.Node]
	if l == nil || int64(a.Seq) <= l.seq {
		return
	}
	kept := min(int64(a.Kept), l.lent)
	home := min(int64(a.Home), l.lent-kept)
	l.lent = kept
	m.take(-home)
}

func (m *lentModel) lend(now int64, a *stint.Loan, passed bool) (grant, held int64) {
	l := m.loans[a.Node]
	if l == nil {
		l = &lentLoan{}
	}
	switch {
	case int64(a.Seq) == l.seq:
		return l.grant, max(0, l.lent-l.grant)
	case int64(a.Seq) < l.seq:
		return 0, 0
	}
	held = l.lent
	nodes := int64(1)
	for node, l := range m.loans {
		if node != a.Node && l.until-2_000_000 > now {
			nodes++
		}
	}
	want, may := int64(a.Want), m.burst/4-m.lent()
	if grant = min(want, may/2, m.whole()/(2*nodes)); grant < min(want, 8) {
		grant = min(want, may, m.whole()/nodes) // what refills is shared, if each node gets two in a pause
		if grant < min(want, 2) || 2*nodes*m.charge > min(250_000, m.burst*m.charge/4) {
			grant = 0
		}
	}
	if !passed {
		grant = 0
	}
	m.take(grant)
	*l = lentLoan{int64(a.Seq), grant, l.lent + grant, now + 2_500_000}
	m.loans[a.Node] = l
	return grant, held
}

// A bucket lends as the model does, whatever nodes report, repeat, or never say.
func TestLendModel(t *testing.T) {
	limit := stint.MustLimit(lentSpec)
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 2))
		var st stint.State
		epoch := stint.Epoch{Began: zero}
		now := int64(zero)
		m := lentModel{charge: 3334, burst: 80, tokens: big.NewRat(80, 1), last: now, loans: map[uint64]*lentLoan{}}
		var asks []stint.Loan
		seq := map[uint64]uint64{}
		for step := range 120 {
			now += pick(r, 0, 1, 100, 3334, 3333, 20_000, r.Int64N(500_000)+1)
			if r.IntN(40) == 0 {
				now += 2_400_000
			}
			m.to(now)
			cost := pick(r, int64(0), 0, 1, 2, 5) // there is no call for loans
			var d stint.Decision
			if r.IntN(3) == 0 { // a node without a loan
				d = limit.Take(&st, stint.Instant(now), uint64(cost))
				if passed := m.whole() >= cost; d.Allowed != passed {
					t.Fatalf("seed %d step %d: %+v, the model says %v", seed, step, d, passed)
				} else if passed {
					m.take(cost)
				}
			} else {
				a := stint.Loan{Node: r.Uint64N(5) + 1, Epoch: zero, Kept: uint32(r.IntN(20)), Home: uint32(r.IntN(10)), Want: uint32(r.IntN(30))}
				seq[a.Node]++
				a.Seq = seq[a.Node]
				if len(asks) > 0 && r.IntN(4) == 0 {
					a = pick(r, asks...)
				}
				asks = append(asks, a)
				limit.ForStores().Report(&st, stint.Instant(now), &a, epoch)
				m.report(&a)
				d = limit.Take(&st, stint.Instant(now), uint64(cost))
				passed := m.whole() >= cost
				if passed {
					m.take(cost)
				}
				limit.ForStores().Lend(&st, stint.Instant(now), &a, uint64(cost), &d)
				grant, held := m.lend(now, &a, passed)
				if d.Allowed != passed || int64(a.Grant) != grant || int64(a.Held) != held {
					t.Fatalf("seed %d step %d: %+v %+v, the model grants %d and %v", seed, step, d, a, grant, passed)
				}
			}
			if units := st.Lent(stint.Instant(now)); d.Remaining != m.whole() || units != m.lent() {
				t.Fatalf("seed %d step %d: %+v and %d lent, the model has %d and %d", seed, step, d, units, m.whole(), m.lent())
			}
		}
	}
}

// What is refused passes after exactly RetryAfter, if no loan is heard of again.
func TestLendRetry(t *testing.T) {
	limit := stint.MustLimit(lentSpec)
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 3))
		var st stint.State
		now := zero
		for node := range r.Uint64N(3) + 1 {
			a := stint.Loan{Node: node + 1, Seq: 1, Want: uint32(r.IntN(30))}
			limit.ForStores().Report(&st, now, &a, stint.Epoch{Began: zero})
			d := limit.Take(&st, now, uint64(r.IntN(40)))
			limit.ForStores().Lend(&st, now, &a, 0, &d)
			now = now.Add(time.Duration(r.IntN(100)) * time.Millisecond)
		}
		cost := uint64(r.IntN(80) + 1)
		d := limit.Test(&st, now, cost)
		if d.Allowed {
			continue
		}
		if at := now.Add(d.RetryAfter); !limit.Test(&st, at, cost).Allowed || limit.Test(&st, at-1, cost).Allowed {
			t.Fatalf("seed %d: %d units are told to come back in %v", seed, cost, d.RetryAfter)
		}
	}
}

// lentNode is a node that spends as late as it may.
type lentNode struct {
	seq  uint64
	left uint32
	till stint.Instant
}

// On any number of nodes that spend what they hold whenever they like, and report what
// they like of that, no window sees more than the burst and what the rate adds.
func TestLendNeverMore(t *testing.T) {
	spec := lentSpec
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 4))
		spec.Requests, spec.Burst = uint32(pick(r, 10, 100, 1000)), uint32(pick(r, 8, 50, 400))
		limit := stint.MustLimit(spec)
		var st stint.State
		nodes := make([]lentNode, 1+r.IntN(8))
		now, level := zero, int64(0)
		pass := func(n int64, after stint.Instant) { // units * microseconds of a second
			level += n * 1_000_000
			if over := level - int64(spec.Burst)*1_000_000; over > 0 {
				t.Fatalf("seed %d: %d units too much at %v", seed, over/1_000_000, after)
			}
		}
		for range 600 {
			step := pick(r, 0, 10, 1000, r.Int64N(300_000))
			now, level = now+stint.Instant(step), max(0, level-step*int64(spec.Requests))
			i := r.IntN(len(nodes))
			n := &nodes[i]
			if now >= n.till {
				n.left = 0
			}
			if n.left > 0 && r.IntN(3) > 0 {
				spent := 1 + r.Uint32N(n.left)
				n.left -= spent
				pass(int64(spent), now)
				continue
			}
			a := stint.Loan{Node: uint64(i) + 1, Seq: n.seq + 1, Epoch: zero, Want: r.Uint32N(200)}
			a.Home = r.Uint32N(n.left + 1)
			a.Kept = n.left - a.Home
			n.seq, n.left = a.Seq, a.Kept
			limit.ForStores().Report(&st, now, &a, stint.Epoch{Began: zero})
			cost := r.Int64N(4)
			d := limit.Take(&st, now, uint64(cost))
			if limit.ForStores().Lend(&st, now, &a, uint64(cost), &d); d.Allowed {
				pass(cost, now)
			}
			if r.IntN(5) > 0 { // else the answer is lost
				n.left, n.till = min(n.left, a.Held)+a.Grant, now.Add(a.Lease)
			}
		}
	}
}

// In an epoch after a loss a key begins empty, and a quarter stays reserved for nodes that may
// still spend their loans, unless its rule says otherwise.
func TestLendAfterLoss(t *testing.T) {
	began := zero + 10_000_000
	epoch := stint.Epoch{Began: began, Lost: true}
	bucket := stint.MustLimit(lentSpec)
	window := stint.MustLimit(stint.Spec{Requests: 100, Per: time.Minute})
	for _, step := range []struct {
		name  string
		limit *stint.Limit
		after time.Duration
		full  bool
		want  int64
	}{
		{"a bucket", bucket, 0, false, 0},
		{"a bucket refills", bucket, 100 * time.Millisecond, false, 29},
		{"a bucket up to three quarters", bucket, 2499 * time.Millisecond, false, 60},
		{"a bucket in full when loans are dead", bucket, 2500*time.Millisecond + 20*3334*time.Microsecond, false, 80},
		{"a bucket that may start unused", bucket, 0, true, 80},
		{"the window that ran", window, time.Second, false, 0},
		{"the next window", window, time.Minute, false, 100},
		{"a window that may start unused", window, 0, true, 100},
	} {
		var st stint.State
		now := began + stint.Instant(step.after.Microseconds())
		a := stint.Loan{KeptAfterLoss: step.full}
		step.limit.ForStores().Report(&st, now, &a, epoch)
		if d := step.limit.Take(&st, now, 0); d.Remaining != step.want || a.Began != began {
			t.Errorf("%s: %+v, want %d remaining", step.name, d, step.want)
		}
	}
}

// What was used of a key since a loss stays used when the epoch is entered; usage from before it
// counts no more than a key that was used up.
func TestUsedSinceLoss(t *testing.T) {
	began := zero + 10_000_000
	epoch := stint.Epoch{Began: began, Lost: true}
	bucket := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 80, Per: time.Minute, Burst: 80})
	window := stint.MustLimit(stint.Spec{Requests: 80, Per: time.Minute})
	day := stint.MustLimit(stint.Spec{Requests: 80, Calendar: stint.Day})
	for _, step := range []struct {
		name  string
		limit *stint.Limit
		used  time.Duration // time of the use, after the loss
		cost  uint64
		after time.Duration // from the use until the epoch is entered
		want  int64
		debt  bool
	}{
		{"a bucket", bucket, time.Hour, 60, 0, 20, false},
		{"a bucket that was used before the loss", bucket, -time.Second, 60, time.Second, 0, false},
		{"a bucket with a debt", bucket, time.Hour, 160, 45 * time.Second, 0, true},
		{"a bucket whose debt is paid", bucket, time.Hour, 160, 75 * time.Second, 20, false},
		{"a window", window, time.Hour, 60, 0, 20, false},
		{"a window that is over", window, time.Hour, 60, time.Minute, 80, false},
		{"a window that was used before the loss", window, -time.Second, 60, time.Second, 0, false},
		{"a window with a debt", window, time.Hour, 160, 0, 0, false},
		{"a calendar day", day, 75 * time.Hour, 60, time.Minute, 20, false},
	} {
		var st stint.State
		now := began.Add(step.used)
		step.limit.Force(&st, now, step.cost)
		now = now.Add(step.after)
		step.limit.ForStores().Report(&st, now, &stint.Loan{Node: 1, Seq: 1}, epoch)
		if d := step.limit.Take(&st, now, 0); d.Remaining != step.want || (st.Written != 0) != step.debt {
			t.Errorf("%s: %+v of %+v, want %d remaining", step.name, d, st, step.want)
		}
	}
}

// A refund gives back no unit that a node was lent and may still spend: of a window that has passed
// 10 and lent 12, whatever is given back leaves 88.
func TestRefundBesideLoan(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Requests: 100, Per: time.Hour})
	var st stint.State
	a := stint.Loan{Node: 1, Seq: 1, Want: 50}
	limit.ForStores().Report(&st, zero, &a, stint.Epoch{Began: zero})
	d := limit.Take(&st, zero, 10)
	limit.ForStores().Lend(&st, zero, &a, 10, &d)
	for range 2 {
		if d := limit.Refund(&st, zero, 50, nil); a.Grant != 12 || d.Remaining != 88 {
			t.Errorf("%d lent, and %d remain after a refund of 50, want 12 and 88", a.Grant, d.Remaining)
		}
	}
}

// Units of a loan that was written off count as spent, so a refund gives them back, whether the
// state was written since or not.
func TestRefundAfterLoan(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Hour, Burst: 100})
	for _, cost := range []uint64{0, 1} {
		var st stint.State
		a := stint.Loan{Node: 1, Seq: 1, Want: 50}
		limit.ForStores().Report(&st, zero, &a, stint.Epoch{Began: zero})
		d := limit.Take(&st, zero, 10)
		limit.ForStores().Lend(&st, zero, &a, 10, &d)
		later := zero.Add(stint.LeaseTime + stint.LeaseMargin + time.Second)
		limit.Take(&st, later, cost)
		if d := limit.Refund(&st, later, 50, nil); a.Grant == 0 || d.Remaining != 100 {
			t.Errorf("%d lent, and after a take of %d and a refund of 50 %d remain, want all 100", a.Grant, cost, d.Remaining)
		}
	}
}

// A lease of the epoch before is void, unless the key is kept after a loss: then the store takes
// back what the node gives back, leaves it the rest, and does neither twice.
func TestReportAcrossEpochs(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Hour, Burst: 100})
	for _, kept := range []bool{false, true} {
		var st stint.State
		ask := func(e stint.Epoch, a stint.Loan) (stint.Loan, int64) {
			a.Node, a.KeptAfterLoss = 1, kept
			limit.ForStores().Report(&st, zero, &a, e)
			d := limit.Take(&st, zero, 0)
			limit.ForStores().Lend(&st, zero, &a, 0, &d)
			return a, d.Remaining
		}
		first, _ := ask(stint.Epoch{Began: zero}, stint.Loan{Seq: 1, Want: 10})
		next := stint.Epoch{Began: zero + 1, Lost: true}
		for range 2 {
			a, left := ask(next, stint.Loan{Seq: 2, Epoch: zero, Kept: 4, Home: 3})
			switch {
			case first.Grant != 10:
				t.Fatalf("lent %+v", first)
			case kept && (a.Held != 4 || left != 93):
				t.Errorf("kept: %+v and %d remain, want 4 held and 93", a, left)
			case !kept && (a.Held != 0 || left != 0):
				t.Errorf("used up: %+v and %d remain, want nothing", a, left)
			}
		}
	}
}

// A fixed window lends within itself, and a reset keeps its loans.
func TestLendWindow(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Requests: 100, Per: time.Second})
	var st stint.State
	second := zero - zero%1_000_000
	at := second.Add(700 * time.Millisecond)
	ask := func(now stint.Instant, a stint.Loan, cost uint64) (stint.Decision, stint.Loan) {
		limit.ForStores().Report(&st, now, &a, stint.Epoch{Began: zero})
		d := limit.Take(&st, now, cost)
		limit.ForStores().Lend(&st, now, &a, cost, &d)
		return d, a
	}
	d, a := ask(at, stint.Loan{Node: 1, Seq: 1, Want: 50}, 10)
	if d.Remaining != 78 || a.Grant != 12 || a.Lease != 240*time.Millisecond {
		t.Fatalf("%+v %+v", d, a)
	}
	limit.Reset(&st, at)
	if d, a = ask(at, stint.Loan{Node: 1, Seq: 2, Epoch: zero, Kept: 5, Home: 4}, 0); d.Remaining != 92 || a.Held != 5 {
		t.Fatalf("after a reset, with 5 kept, 4 given back and 5 spent: %+v %+v", d, a)
	}
	if d, a = ask(at+300_000, stint.Loan{Node: 1, Seq: 3, Epoch: zero, Kept: 5}, 0); d.Remaining != 100 || a.Held != 0 {
		t.Fatalf("in the next window: %+v %+v", d, a)
	}
}

// Who asks when a window is over is known in the next one, also if nothing is charged there;
// and if time runs back, what was taken of the window that was over still counts.
func TestLendWindowOver(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Requests: 100, Per: time.Second})
	before := zero - zero%1_000_000
	next := before.Add(time.Second)
	for _, cost := range []uint64{0, 200} {
		var st stint.State
		limit.Take(&st, before, 60)
		ask := func(now stint.Instant, node, cost uint64) stint.Loan {
			a := stint.Loan{Node: node, Seq: 1, Want: 50}
			if node == 1 {
				a.Want = 0
			}
			limit.ForStores().Report(&st, now, &a, stint.Epoch{Began: zero})
			d := limit.Take(&st, now, cost)
			limit.ForStores().Lend(&st, now, &a, cost, &d)
			return a
		}
		ask(next, 1, cost)
		if at := limit.ForStores().Expiry(&st); at != next.Add(2500*time.Millisecond) {
			t.Errorf("after %d: the state is forgotten %v after the window", cost, at.Sub(next))
		}
		limit.Refund(&st, next, 20, nil)
		if d := limit.Test(&st, before, 0); d.Remaining != 40 {
			t.Errorf("after %d: the window before has %d left, want 40", cost, d.Remaining)
		}
		if a := ask(next.Add(200*time.Millisecond), 2, 60); a.Grant != 10 {
			t.Errorf("after %d: the next is lent %d, want 10", cost, a.Grant)
		}
	}
}

// What is lent is not given back to a window that never counted it, also where time ran
// back and windows became shorter.
func TestLendWindowShorter(t *testing.T) {
	hour := stint.MustLimit(stint.Spec{Requests: 100, Per: time.Hour})
	second := stint.MustLimit(stint.Spec{Requests: 100, Per: time.Second})
	start := zero - zero%1_000_000
	at := start.Add(1500 * time.Millisecond)
	var st stint.State
	a := stint.Loan{Node: 1, Seq: 1, Want: 50}
	hour.ForStores().Report(&st, at, &a, stint.Epoch{Began: zero})
	d := hour.Take(&st, at, 1)
	hour.ForStores().Lend(&st, at, &a, 1, &d)
	second.ForStores().Migrate(&st, hour, start)
	second.Take(&st, at, 60)
	back := stint.Loan{Node: 1, Seq: 2, Epoch: zero, Home: a.Grant}
	second.ForStores().Report(&st, at, &back, stint.Epoch{Began: zero})
	if d := second.Test(&st, at, 0); a.Grant != 12 || d.Remaining != 40 {
		t.Errorf("12 lent, and 60 taken in the next window: %d lent, %d left", a.Grant, d.Remaining)
	}
}

// What is lent is told until it is written off, or its window is over.
func TestLending(t *testing.T) {
	second := zero - zero%1_000_000
	for _, test := range []struct {
		name  string
		spec  stint.Spec
		later time.Duration
		want  []stint.Lent
	}{
		{"at once", lentSpec, 0, []stint.Lent{{7, 10, second}, {8, 5, second + 100}}},
		{"the first is written off", lentSpec, 2500 * time.Millisecond, []stint.Lent{{8, 5, second + 100}}},
		{"both are", lentSpec, 2501 * time.Millisecond, nil},
		{"in its window", stint.Spec{Requests: 80, Per: time.Second}, 900 * time.Millisecond, []stint.Lent{{7, 10, second}, {8, 5, second + 100}}},
		{"after its window", stint.Spec{Requests: 80, Per: time.Second}, time.Second, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			limit, epoch := stint.MustLimit(test.spec), stint.Epoch{Began: second - 1}
			var st stint.State
			if epoch, all := limit.ForStores().Lending(&st, second); epoch != 0 || all != nil {
				t.Errorf("nothing was lent: %v %+v", epoch, all)
			}
			for i, a := range []stint.Loan{{Node: 7, Seq: 1, Want: 10}, {Node: 8, Seq: 1, Want: 5}} {
				now := second + stint.Instant(100*i)
				limit.ForStores().Report(&st, now, &a, epoch)
				d := limit.Take(&st, now, 0)
				limit.ForStores().Lend(&st, now, &a, 0, &d)
			}
			began, all := limit.ForStores().Lending(&st, second.Add(test.later))
			if began != epoch.Began || !slices.Equal(all, test.want) {
				t.Errorf("%+v, want %+v", all, test.want)
			}
		})
	}
}
