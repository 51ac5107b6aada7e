// Package lease lets each node of a fleet decide busy keys from its own memory, exactly: the store
// lends it some units of a key, which it then gives out without asking.
//
// A [Node] is the state of one process. It never blocks, starts no goroutine and has no clock, so
// package fleet/sim can simulate hundreds of nodes with lost messages, crashes and wrong clocks. A
// [Store] is a Node with a clock, around the store that lends.
//
// # Why it is exact
//
// Lent units stay inside the limit. The store keeps this invariant (see Report and Lend in lend.go
// of the root package):
//
//	units in the store + units lent and possibly unspent <= limit
//
// A node keeps its half of it:
//
//   - It spends a unit at most once, by one compare-and-swap.
//   - It spends nothing after the lease ends. It measures the lease from before it asked, by two clocks:
//     the monotonic clock, and the wall clock, which goes on while the machine sleeps.
//   - It never reports fewer unspent units than it can still spend. A unit that is given back after the
//     report is lost.
//
// Lost, repeated, late and reordered messages do not break it: the store counts units as unspent
// until a node reports otherwise, and a node has only the units of answers that reached it.
//
// # Which takes ask the store
//
//	a key with few takes                 every take, as in strict mode
//	a busy key                           none, except one message per interval and node, about all
//	keys that run low
//	a take larger than the units here    that take; the units here are returned with it
//	a key with no units left             none, until the store may have some again
//
// A node asks for the units that a key will use in [Options].Ahead, before it has spent those it
// has, so no request waits. It returns units that it does not use with the next message.
//
// A rule whose limit is divided among processes needs package fleet/quota around a Store.
package lease
