// Package transaction decides takes of one call that all pass, or none of them is charged.
//
// # Plan
//
// A call has groups: all takes that are not Independent, and each take that is, with those it leans
// on. A [Plan] is one group. Takes of one key are one [Part] of it with the sum of their costs.
// A part may borrow from others, its sources, such as a pool and a cap.
//
// # Test
//
// Every part is asked whether its cost fits its limit, and nothing is charged. Sources are asked
// last: for what the parts that do not fit their own limits want of them. A part that does
// not fit passes all the same if all its sources have room; it is Over then. The group passes
// if every part does that somebody asked. A source denies nobody but its borrowers.
//
// # Charge
//
// If the group passes, every part is charged; what those owe their sources that did not need them
// is a debt that is charged without a test. If it does not pass, nothing changes, but for limits that
// count denied takes or are charged by them (overdraw).
//
// # Where the parts are
//
// Where the caller holds the states of all keys, [Plan.Decide] tests and charges them at one moment.
//
// Where several servers or partitions hold them, a [Run] tests on all, then charges on all, and undoes
// what was charged if one denies or fails. Between two steps others see some keys charged and
// others not yet. What cannot be undone is done last. An error means that nothing of the group is
// charged, unless it wraps stint.ErrUnknown.
//
// # States that cannot be read
//
// A store decides all groups but those with a state that it cannot read, and names the takes of these
// in a [stint.CorruptState]. [Undecodable], [Decided] and [Renumber] help stores that pass on a part of
// a call.
package transaction
