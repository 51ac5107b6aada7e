package lease_test

import (
	"testing"
	"time"

	"stint"
	"stint/fleet/lease"
)

// A change of epoch touches the busy keys of the server, by what after_loss makes of them, with the units that the
// node had, also where an answer has already shown it the new epoch. Each change is counted once.
func TestLost(t *testing.T) {
	for _, test := range []struct {
		name   string
		learns bool
	}{{"noticed first", false}, {"an answer came first", true}} {
		t.Run(test.name, func(t *testing.T) {
			l := &lossNode{t: t, node: lease.NewNode(lease.Options{Seed: 7, Always: true}), epoch: 1_000_000}
			for range 100 {
				for _, key := range []stint.Key{"a", "b", "c", "elsewhere"} {
					l.ask(key)
				}
			}
			had := l.held("a") + l.held("b") + l.held("c")
			if l.held("a") == 0 || l.held("b") == 0 || l.held("c") == 0 {
				t.Fatal("the node has no units")
			}
			if l.epoch = 9_000_000; test.learns {
				had = l.learn()
			}
			here := func(take *stint.Take) bool { return take.Key != "elsewhere" }
			got := l.node.Lost(l.now, here)
			if want := (lease.Loss{UsedUp: 2, Kept: 1, Units: had}); got != want {
				t.Errorf("touched %+v, want %+v", got, want)
			}
			s := l.node.Stats()
			if s.LostUsedUp != 2 || s.LostKept != 1 || s.LostUnits != uint64(got.Units) {
				t.Errorf("counted %+v", s)
			}
			left := l.held("a") + l.held("b") + l.held("c")
			if got := l.node.Lost(l.now, here); got.Units != left {
				t.Errorf("the next loss touches %d units, of %d", got.Units, left)
			}
		})
	}
}

// lossNode is a node whose store lends as much as it asks for, of any key.
type lossNode struct {
	t         *testing.T
	node      *lease.Node
	now       lease.Moment
	epoch     stint.Instant
	grantless bool
}

func (l *lossNode) take(key stint.Key) stint.Take {
	how := terms(stint.Leased, fast)
	how.KeptAfterLoss = key == "c"
	return stint.Take{Key: key, Limit: fast, Cost: 1, Handling: &stint.Handling{Terms: how}}
}

func (l *lossNode) held(key stint.Key) int64 { return l.node.Held(new(l.take(key))) }

// ask takes a unit of a key, a millisecond later.
func (l *lossNode) ask(key stint.Key) {
	l.now = l.now.Add(time.Millisecond)
	call := stint.Call{Takes: []stint.Take{l.take(key)}}
	if req, _ := l.node.Begin(&call, l.now, false); req != nil {
		l.answer(req)
	}
	for _, req := range l.node.Tick(l.now) {
		l.answer(req)
	}
}

// learn lets answers show the node another epoch in which it gets no units. It returns how many units the node
// had of the keys before these answers, which it gets after the last take.
func (l *lossNode) learn() (had int64) {
	l.grantless = true
	before := map[stint.Key]int64{}
	for range 1000 {
		for _, key := range []stint.Key{"a", "b", "c"} {
			if n := l.held(key); n > 0 {
				before[key] = n - 1 // ask spends one
				l.ask(key)
			}
		}
		if l.held("a")+l.held("b")+l.held("c") == 0 {
			return before["a"] + before["b"] + before["c"]
		}
	}
	l.t.Fatal("the node still has units")
	return 0
}

func (l *lossNode) answer(req *lease.Request) {
	req.Call.SizeResults()
	for i := range req.Call.Takes {
		req.Call.Results[i] = stint.Decision{Allowed: true, Limit: 1000, Remaining: 500}
		loan := req.Call.Takes[i].Handling.Loan
		if loan == nil {
			continue
		}
		if loan.Began, loan.Lease = l.epoch, 2*time.Second; !l.grantless {
			loan.Grant, loan.Held = loan.Want, loan.Kept
		}
	}
	if err := l.node.End(req, l.now, nil); err != nil {
		l.t.Error(err)
	}
}
