// Package quota gives each process a part of a limit to itself, at all times, and leaves the
// rest to the store: so the part goes on while the store is away, for however long, and all
// of them together never pass more than the limit.
//
// A [Node] is what one process has for itself: it never blocks, starts nothing and has no
// clock, so that package fleet/sim can put hundreds of them through years of bad weather. A
// [Store] is a Node with a clock, around the store that has the rest.
//
// # Why it is exact
//
// The limit is divided once, by its rule (see package internal/limits): nodes parts and the rest
// are together no more than the limit, in every window. So nobody need know who lives, and
// what is left to see to is that no part is spent twice:
//
//   - A part that this process knows nothing of counts as empty when the process first had
//     it: whoever stood in its place before may have used it up until then. It fills up from
//     there. So processes may come and go, as long as there are no more of them at a time
//     than the rule says.
//   - A part is counted by a clock that nobody sets. What the process forgets, because there
//     are too many keys, counts as empty from then.
//   - When the rule changes, what was used of a part stays counted, see Node.Change.
//
// # Which of the two is spent first
//
// The part: what comes in there nobody else can use, and what comes in at the store anybody
// can. So a key that asks less than its part never asks the store, and nothing is wasted
// while the store has something. It means that a process whose store goes away has the rate
// of its part, and not always what the part holds at once.
//
// A take is never divided: it is charged to the part as a whole, or else to the rest. So one
// larger than either never passes.
package quota
