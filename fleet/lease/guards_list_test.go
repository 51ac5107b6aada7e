package lease_test

var mutants = []mutant{
	// The invariant: tokens in the store and lent ones are never more than the burst.
	{
		name: "a bucket does not refill what is lent", file: "lend.go",
		old: "return l.reserve(t, now, lent), off", new: "return t, off",
	},
	{
		name: "a loan that is written off counts as spent then", file: "lend.go",
		old: "\t\tt = l.reserve(t, o.until(), lent)\n\t\tlent -= o.lent\n\t\toff++", new: "\t\tlent -= o.lent\n\t\toff++",
	},
	{
		name: "a granted unit is taken from the store", file: "lend.go",
		old: "\t\t\tl.add(st, now, int64(a.Grant))\n", new: "",
	},
	{
		name: "a granted unit counts as lent", file: "lend.go",
		old: "a.Seq, a.Grant, now, o.lent+int64(a.Grant)", new: "a.Seq, a.Grant, now, o.lent",
	},
	{
		name: "at most a quarter of the burst is lent", file: "lend.go",
		old: "int64(a.Want), l.most/LeasePart-lent,", new: "int64(a.Want), l.most,",
	},
	{
		name: "a loan of units is listed until it is written off", file: "lend.go",
		old: "o.lent == 0 && o.at.Add(active) <= now", new: "o.at.Add(active) <= now",
	},

	// A lease ends on the node before the store writes it off.
	{
		name: "the store writes a loan off after the lease", file: "loan.go",
		old: "const lifeOfLoan = LeaseTime + LeaseMargin", new: "const lifeOfLoan = LeaseTime / 2",
	},
	{
		name: "a node drops units when the lease is over", file: "fleet/lease/held.go",
		old: "\tcase now.reached(h.until):\n\t\treturn false\n\tcase cost == 0:", new: "\tcase cost == 0:",
	},
	{
		name: "a node reads the wall clock too", file: "fleet/lease/moment.go",
		old: "return m.Mono >= end.Mono || m.Wall >= end.Wall", new: "return m.Mono >= end.Mono",
	},
	{
		name: "a node reads the monotonic clock too", file: "fleet/lease/moment.go",
		old: "return m.Mono >= end.Mono || m.Wall >= end.Wall", new: "return m.Wall >= end.Wall",
	},
	{
		name: "a lease begins before the request", file: "fleet/lease/entry.go",
		old: "heldOf(has, e.asked.Add(a.Lease), d, now)", new: "heldOf(has, now.Add(a.Lease), d, now)",
	},
	{
		// E is 0 without it while one of the node's clocks runs: the answer has the time that is left of the lease.
		name: "a repeated request does not begin the lease anew", file: "fleet/lease/entry.go",
		old: "\te.inFlight = make(chan struct{})\n", new: "\te.inFlight, e.asked = make(chan struct{}), now\n",
	},
	{
		name: "the store's lease is for clocks that differ", file: "lend.go",
		old: "* LeaseTime / (lifeOfLoan / time.Millisecond)", new: "* time.Millisecond",
	},
	{
		name: "a lease ends with its window", file: "lend.go",
		old: "\t\tuntil = min(until, Instant(end))\n", new: "\t\t_ = end\n",
	},

	// Numbers of requests.
	{
		name: "a repeated request is granted once", file: "lend.go",
		old: "\tcase a.Seq == o.seq:\n\t\ta.Grant, a.Held = o.grant, uint32(max(0, o.lent-int64(o.grant)))\n", new: "",
	},
	{
		name: "a late request is granted nothing", file: "lend.go",
		old: "\tcase a.Seq < o.seq:\n\t\treturn\n", new: "", in: ".",
	},
	{
		name: "a repeated or late report is booked once", file: "lend.go",
		old: "a.Node == 0 || a.Seq <= o.seq || a.Epoch", new: "a.Node == 0 || a.Epoch",
	},
	{
		name: "a node keeps no more than the store counts as lent", file: "fleet/lease/entry.go",
		old: "kept := min(e.takeBackLocked(), int64(a.Held))", new: "kept := e.takeBackLocked()",
	},

	// A node spends each unit once.
	{
		name: "a reported unit is not given back", file: "fleet/lease/held.go",
		old: "left&reported != 0 || ", new: "", in: "fleet/lease",
	},
	{
		name: "a report marks the units", file: "fleet/lease/held.go",
		old: "h.left.Or(reported)/unit", new: "h.left.Load()/unit", in: "fleet/lease",
	},
	{
		name: "replaced units are closed", file: "fleet/lease/held.go",
		old: "h.left.Swap(closed)/unit", new: "h.left.Load()/unit", in: "fleet/lease",
	},
	{
		name: "a take spends its units", file: "fleet/lease/held.go",
		old: "h.left.CompareAndSwap(left, left-int64(cost)*unit)", new: "h.left.CompareAndSwap(left, left-unit)",
	},

	// Epochs.
	{
		name: "a node drops the units of a lost epoch", file: "fleet/lease/entry.go",
		old: "\tkept := min(e.takeBackLocked(), int64(a.Held))\n\tif a.Began != e.epoch && !a.KeptAfterLoss { // otherwise a.Held is what the store still has of the lease\n\t\tkept = 0\n\t}\n",
		new: "\tkept := e.takeBackLocked()\n\tif a.Began == e.epoch {\n\t\tkept = min(kept, int64(a.Held))\n\t}\n",
	},
	{
		name: "a key of a lost epoch keeps a quarter for old leases", file: "lend.go",
		old: "\t\tst.lending.put(loan{lent: l.most / LeasePart, at: began})\n", new: "",
	},
	{
		name: "a key of a lost epoch counts as used up", file: "lend.go",
		old: "st.T = max(st.T, l.clock(began)+l.full)", new: "st.T = max(st.T, 0)",
	},
	{
		name: "a window of a lost epoch counts as used up", file: "lend.go",
		old: "l.windowAdd(&lost, int64(began), l.most)", new: "l.windowAdd(&lost, int64(began), 1)",
	},
	{
		name: "a key that a lost epoch does not know is suspected", file: "lend.go",
		old: "case e.Lost && !a.KeptAfterLoss:", new: "case false:",
	},
	{
		name: "another server is another epoch", file: "fleet/sim/epoch.go",
		old: "case !same, known > e.Began,", new: "case known > e.Began,",
	},
	{
		name: "an emptied store that a node remembers is a lost epoch", file: "fleet/sim/epoch.go",
		old: "return stint.Epoch{Began: now, Lost: known != 0}", new: "return stint.Epoch{Began: now, Lost: false}",
	},

	// Windows.
	{
		name: "loans end with their window", file: "lend.go",
		old: "|| over > 0 && (o.at < over || o.lent > 0)", new: "|| over < 0",
	},

	// Local shares.
	{
		name: "the store lends only the rest", file: "fleet/quota/node.go",
		old: "\t\treturn terms.Rest\n", new: "\t\treturn terms.Limit\n",
	},
	{
		name: "a local share begins empty", file: "fleet/quota/share.go",
		old: "\tr.own.Force(&p.state, empty, uint64(r.own.Capacity()))\n", new: "\tr.own.Force(&p.state, empty, 0)\n", in: "fleet/quota",
	},

	// Nodes that decide alone.
	{
		name: "an answer does not replace what was not sent", file: "fleet/eventual/entry.go",
		old: "\te.addLocked(e.unsent, e.since)\n", new: "", in: "fleet/eventual",
	},
	{
		name: "an eventual node counts what passes", file: "fleet/eventual/entry.go",
		old: "\te.unsent += units\n", new: "\te.unsent += units / 2\n",
	},
	{
		name: "a gossip count only grows", file: "fleet/gossip/receive.go",
		old: "\tif !k.Newer(&old) {\n\t\treturn true\n\t}\n", new: "", in: "fleet/gossip",
	},
	{
		name: "a gossip report that follows missing ones is not booked", file: "fleet/gossip/receive.go",
		old: "\tdefault:\n\t\treturn false\n\t}\n\tif e == nil {", new: "\t}\n\tif e == nil {", in: "fleet/gossip",
	},
	{
		name: "a gossip node counts what another took", file: "fleet/gossip/receive.go",
		old: "\te.debit(&e.state, taken, given, now)\n\treturn true", new: "\te.debit(&e.state, min(1, taken), given, now)\n\treturn true",
	},
	{
		name: "gossip settles no use of which reports are missing", file: "fleet/gossip/send.go",
		old: "\t\t\tsettled = min(settled, o.complete)\n", new: "", in: "fleet/gossip",
	},
	{
		name: "gossip settles no use that was learned late", file: "fleet/gossip/merge.go",
		old: "\te.settle(e.settled, e.settledAt, 0, now)", new: "\te.nextAt = min(e.nextAt, now)", in: "fleet/gossip",
	},
	{
		name: "a gossip node that was taken for dead owes nothing later", file: "fleet/gossip/merge.go",
		old: "n.session.gaveUp(it.Origin, e.settledAt) || ", new: "", in: "fleet/gossip",
	},
	{
		name: "a gossip node that stopped is waited for while a report is missing", file: "fleet/gossip/send.go",
		old: "case o.left && o.highest <= o.upTo:", new: "case o.left:", in: "fleet/gossip",
	},
}
