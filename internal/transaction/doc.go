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
//   - The caller holds all states: [Plan.Decide] tests and charges them at one moment.
package transaction
