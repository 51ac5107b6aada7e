// Package lease lets each node of a fleet decide busy keys from its own memory, exactly:
// the store lends it some units of a key, which it then gives out without asking.
//
// A [Node] is what one process knows: it never blocks, starts nothing and has no clock,
// so that package fleet/sim can put hundreds of them through years of bad weather. A
// [Store] is a Node with a clock, around the store that lends.
//
// # Why it is exact
//
// What is lent stays inside the limit. The ledger stands above Report and Lend in the
// root package (lend.go) and keeps
//
//	units in the store + units lent and possibly unspent <= limit
//
// and a node keeps its half of it:
//
//   - it spends a unit at most once, by one compare-and-swap;
//   - it spends nothing after the lease is over, by two clocks: one that nobody sets, and
//     one that goes on while the machine sleeps, from before it asked;
//   - what it reports as unspent is no less than what it can still spend: what was
//     reserved and is given back after a report is lost instead.
//
// Losing, repeating, delaying and reordering messages changes nothing of that: whatever
// the store has not heard of counts as unspent, and what a node has not heard of it does
// not have.
//
// # What is asked of the store
//
//	a key that asks rarely            every take, as in strict mode
//	a busy key                        nothing, but for one message per interval and node
//	                                  about all its keys that run low
//	a take larger than what is here   the take; what is here comes home with it
//	a key with nothing left           nothing until there may be something again
//
// A node wants what its key will use in [Options].Ahead. It asks again before that is used
// up, so no request waits; what it does not use comes home with the next message.
//
// A rule whose limit is divided, with a part for each process, needs package fleet/quota
// around a Store: this one lends what it is asked for, and knows of no parts.
package lease
