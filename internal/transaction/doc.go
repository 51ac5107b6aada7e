// Package transaction decides takes of one call that all pass, or none of them is charged.
//
// # Plan
//
// A call has groups: all takes that are not Independent, and each take that is, with the sources it
// borrows from. A [Plan] is one group. Takes of one key are one [Part] of it with the sum of their
// costs. A part may borrow from others, its sources, such as a pool and a cap.
//
// # Test
//
// The test checks for every part whether its cost fits its limit, and charges nothing. A part that
// does not fit passes all the same if it has sources and all of these have room; it is Over then. The
// test checks sources last, when it knows how much their borrowers need. A source denies only its
// borrowers, so the group passes if all parts pass that are not only sources.
//
// # Charge
//
// If the group passes, every part is charged. The sources of borrowers that did not need them are
// debited too, without a test, and so may go into debt. If the group does not pass nothing changes,
// except for limits that count denied takes or charge them (overdraw).
//
// # At most
//
// All parts of a group that ask for at most their cost are charged one number of units: the most
// that all of them can take. It is computed before the test. If one of them can take none, all are
// tested for 1 unit.
//
// # Candidates
//
// A candidate (see stint.Handling) is an Independent take that is decided after the group of the take for
// which it stands. If another take of that group denies, it is not charged. [DeniedBeside] tells, and
// [Apart] divides a call for stores that would decide candidates before or elsewhere.
//
// # Where the states are
//
// If the caller has the states of all keys, [Plan.Decide] tests and charges them at one moment.
//
// If several servers or partitions have them, a [Run] tests on all, then charges on all, and undoes
// what was charged if one denies or fails. Between two steps others may see some keys charged and
// others not yet. If others took so much meanwhile that only fewer units of an AskAtMost pass, the
// Run begins again. Steps that cannot be undone come last. An error means that nothing of the group
// is charged, unless it wraps stint.ErrUnknown.
//
// # Refunds
//
// [Charges] collect what a call charged in several places, and make the refunds that undo it.
//
// # Other numbers
//
// A [Record] is the state of a key with the limit under which it was written. It keeps the use of the
// key while the numbers of its limit change.
//
// A [History] is the use of a key by periods, which stores write with its record.
//
// # States that cannot be read
//
// A store decides all groups except those with a state that it cannot read, and lists the takes of
// these in a [stint.CorruptState]. [Undecodable], [Decided] and [Renumber] help stores that pass on
// a part of a call.
package transaction
